//! Whether anything answers behind the FIP, on the node that holds it. Pure.
//!
//! Invariant: no verdict and no step rests on it. The FIP belongs where etcd leads, whatever serves behind it; this is only said. A
//! port on which nothing has ever answered is named and raises no alarm: on such a node nothing may be meant to.

use super::time::Moment;

/// How many questions in a row must go unanswered until it counts as silent: a server that is restarted misses one or two.
pub const SILENT_AFTER: u32 = 3;

/// How many in a row must be answered until it does not any more: one that crashes again and again answers now and then.
pub const ANSWERS_AFTER: u32 = 2;

/// The answers so far. The default is that of a node without the FIP: not asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiView {
    port: u16,
    answered_at: Option<Moment>,
    /// The last answers, all of one kind.
    run: Option<Run>,
    silence: Option<Silence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    answered: bool,
    times: u32,
    since: Moment,
}

/// A time in which nothing answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// The first question that was not answered.
    pub since: Moment,
    /// How the last one failed. Lower case.
    pub how: String,
    /// Whether anything has ever answered there, since this daemon began to ask. Only then is it an alarm.
    pub has_answered: bool,
}

impl ApiView {
    /// Nothing has been asked yet.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self { port, ..Self::default() }
    }

    /// The TCP port that is asked; none on a node without the FIP.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        if self.port == 0 { None } else { Some(self.port) }
    }

    /// When it last answered.
    #[must_use]
    pub const fn answered_at(&self) -> Option<Moment> {
        self.answered_at
    }

    /// Whether it counts as silent, and since when.
    #[must_use]
    pub const fn silence(&self) -> Option<&Silence> {
        self.silence.as_ref()
    }

    /// The same, if something has answered there before.
    #[must_use]
    pub fn alarm(&self) -> Option<&Silence> {
        self.silence().filter(|silence| silence.has_answered)
    }

    /// A question was answered, or not, and how that showed.
    pub fn note(&mut self, answer: Result<(), String>, at: Moment) {
        let answered = answer.is_ok();
        let run = match self.run {
            Some(run) if run.answered == answered => Run { times: run.times.saturating_add(1), ..run },
            Some(_) | None => Run { answered, times: 1, since: at },
        };
        self.run = Some(run);
        match answer {
            Ok(()) => {
                self.answered_at = Some(at);
                if run.times >= ANSWERS_AFTER {
                    self.silence = None;
                }
            }
            Err(how) if run.times >= SILENT_AFTER => {
                let since = self.silence.as_ref().map_or(run.since, |silence| silence.since);
                self.silence = Some(Silence { since, how, has_answered: self.answered_at.is_some() });
            }
            Err(_) => {}
        }
    }

    /// The FIP has left: only that there were answers is kept.
    pub fn leave(&mut self) {
        (self.run, self.silence) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(second))
    }

    /// One question every ten seconds: `+` is answered, `-` is not.
    fn asked(answers: &str) -> ApiView {
        let mut view = ApiView::new(6443);
        for (second, answer) in (0..).step_by(10).zip(answers.chars()) {
            view.note(if answer == '+' { Ok(()) } else { Err(format!("refused at {second}")) }, at(second));
        }
        view
    }

    #[test]
    fn three_questions_in_a_row_must_go_unanswered() {
        for calm in ["", "+", "+-", "+--", "+--+--", "+-+-+-+-", "--", "--+--"] {
            assert_eq!(asked(calm).silence(), None, "{calm}");
        }
        let silence = |since, how: u64| Some(Silence { since: at(since), how: format!("refused at {how}"), has_answered: true });
        assert_eq!(asked("+---").alarm(), silence(10, 30).as_ref());
        assert_eq!(asked("+-----").alarm(), silence(10, 50).as_ref(), "it lasts from the first, and is told by the last");
    }

    #[test]
    fn two_answers_in_a_row_end_it_and_one_does_not() {
        for loud in ["+---+", "+---+-", "+---+-+-", "+---+---"] {
            assert_eq!(asked(loud).alarm().map(|silence| silence.since), Some(at(10)), "{loud}");
        }
        assert_eq!(asked("+---++").silence(), None);
        assert_eq!(asked("+---++---").alarm().map(|silence| silence.since), Some(at(60)), "the next one is another");
    }

    #[test]
    fn where_nothing_has_ever_answered_there_is_silence_and_no_alarm() {
        let view = asked("-----");
        assert_eq!((view.alarm(), view.answered_at()), (None, None));
        assert_eq!(view.silence().map(|silence| silence.has_answered), Some(false));
        assert!(asked("---+---").alarm().is_some(), "it has answered once, and does not again");
    }

    #[test]
    fn a_fip_that_left_and_came_back_finds_the_old_answers_and_no_old_silence() {
        let mut view = asked("+---");
        view.leave();
        assert_eq!((view.silence(), view.answered_at()), (None, Some(at(0))));
        for second in [100, 110] {
            view.note(Err("refused".to_owned()), at(second));
        }
        assert_eq!(view.silence(), None);
        view.note(Err("refused".to_owned()), at(120));
        assert_eq!(view.alarm().map(|silence| silence.since), Some(at(100)));
    }

    #[test]
    fn a_node_that_is_not_asked_has_no_port() {
        assert_eq!((ApiView::default().port(), ApiView::new(6443).port()), (None, Some(6443)));
    }
}

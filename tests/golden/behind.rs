//! What is behind the FIP of a case's node, asked as the sense asks, and answered at once.

use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Policy;

use crate::state::Api;

/// Between two questions.
const ASKED_EVERY: Duration = Duration::from_secs(10);

/// What has been asked so far.
pub struct Behind {
    view: Option<ApiView>,
    asked_at: Option<Moment>,
}

impl Behind {
    /// Nothing yet.
    pub fn new(policy: &Policy) -> Self {
        Self { view: policy.api.port().map(ApiView::new), asked_at: None }
    }

    /// Asks if that is due.
    pub fn look(&mut self, api: &Api, held: bool, now: Moment) -> ApiView {
        let Some(view) = self.view.as_mut() else { return ApiView::default() };
        if !held {
            view.leave();
            self.asked_at = None;
            return ApiView::default();
        }
        if self.asked_at.is_none_or(|at| now.since(at) >= ASKED_EVERY) {
            self.asked_at = Some(now);
            let answer = match api {
                Api::Answers => Ok(()),
                Api::Silent(how) => Err(how.clone()),
            };
            view.note(answer, now);
        }
        view.clone()
    }
}

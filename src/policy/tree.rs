//! YAML text to a tree of nodes that know their place.
//!
//! A policy needs none of YAML's clever parts, so anchors, aliases, tags, directives and further
//! documents are refused; that also bounds the tree by the length of the text. The parser stops at its first
//! syntax error, everything after it would be guesswork: that is the one case in which a fault hides others.
//!
//! Why not serde: it stops at the first unknown key, wrong type or missing field, see `docs/decisions/0001-yaml-crate.md`.

use granit_parser::{Event, Parser, ScalarStyle, Span, options};

use super::fault::{FaultLog, Pos, quoted};

/// Most nodes of a policy; every key of the schema set once makes about 130.
const NODES_MAX: usize = 2000;
/// Deepest nesting; the schema needs three.
const DEPTH_MAX: usize = 8;

/// One value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) pos: Pos,
    pub(super) kind: Kind,
    /// A part of YAML that policies do not use, to be reported by whoever looks at the node.
    pub(super) odd: Option<&'static str>,
}

impl Node {
    /// Whether a node does without anchors, aliases and tags; says so if it does not.
    pub(super) fn plain(&self, path: &str, faults: &mut FaultLog) -> bool {
        if let Some(odd) = self.odd {
            let hint = "write the value itself".to_owned();
            faults.add(self.pos, path, format!("has {odd}, which policies do not know"), Some(hint));
        }
        self.odd.is_none()
    }
}

/// What a node is.
#[derive(Debug)]
pub(super) enum Kind {
    /// Nothing after the colon, `~` or `null`.
    Null,
    /// A word. Whether it was quoted matters for numbers alone.
    Scalar { text: String, quoted: bool },
    /// A sequence, in either style.
    List(Vec<Node>),
    /// A mapping, in either style, duplicates included.
    Map(Vec<Entry>),
}

impl Kind {
    /// How a message names it.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar { .. } => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// One `key: value`. The key is `None` if it is not a plain word.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Option<String>,
    pub(super) key_pos: Pos,
    pub(super) value: Node,
}

/// Reads the first document. `None` after a syntax error, which is in `faults` then; an empty text is `Null`.
pub(super) fn parse(text: &str, faults: &mut FaultLog) -> Option<Node> {
    let options = options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let lines = Lines::new(text);
    let mut tree = Builder::default();
    let mut documents = 0_usize;
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match next {
            Ok(pair) => pair,
            Err(error) => {
                faults.add(
                    lines.pos(error.marker().byte_offset()),
                    "",
                    format!("not valid YAML: {}", one_line(&error.info())),
                    None,
                );
                return None;
            }
        };
        let pos = lines.start(&span);
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
            if documents > 1 {
                faults.add(pos, "", "a second YAML document starts here: a policy is one document", None);
                break;
            }
        }
        if !tree.take(event, pos) {
            faults.add(pos, "", "has a kind of value that policies do not know", None);
            return None;
        }
        if tree.nodes > NODES_MAX {
            faults.add(pos, "", format!("more than {NODES_MAX} values: this is no policy"), None);
            return None;
        }
    }
    Some(tree.root.unwrap_or(Node { pos: Pos::START, kind: Kind::Null, odd: None }))
}

/// A collection that is still open.
struct Frame {
    pos: Pos,
    odd: Option<&'static str>,
    open: Open,
}

enum Open {
    List(Vec<Node>),
    /// The entries so far, and the key whose value comes next.
    Map(Vec<Entry>, Option<(Option<String>, Pos)>),
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    stack: Vec<Frame>,
    nodes: usize,
}

impl Builder {
    /// `false` for an event that this version does not know.
    fn take(&mut self, event: Event<'_>, pos: Pos) -> bool {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let kind = if plain && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL") {
                    Kind::Null
                } else {
                    Kind::Scalar { text: text.into_owned(), quoted: !plain }
                };
                self.place(Node { pos, kind, odd: odd(anchor, tag.is_some()) });
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.stack.push(Frame { pos, odd: odd(anchor, tag.is_some()), open: Open::List(Vec::new()) });
            }
            Event::MappingStart(_, anchor, tag) => {
                self.stack.push(Frame { pos, odd: odd(anchor, tag.is_some()), open: Open::Map(Vec::new(), None) });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Frame { pos, odd, open }) = self.stack.pop() {
                    let kind = match open {
                        Open::List(items) => Kind::List(items),
                        Open::Map(entries, _) => Kind::Map(entries),
                    };
                    self.place(Node { pos, kind, odd });
                }
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.place(Node { pos, kind: Kind::Null, odd: Some("an alias (`*name`)") });
            }
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Anchor(..)
            | Event::Comment(..) => {}
            // A node of a kind that a later parser invented must not vanish from the tree.
            _ => return false,
        }
        true
    }

    fn place(&mut self, node: Node) {
        self.nodes += 1;
        match self.stack.last_mut().map(|frame| &mut frame.open) {
            None => self.root = Some(node),
            Some(Open::List(items)) => items.push(node),
            Some(Open::Map(entries, pending)) => match pending.take() {
                Some((key, key_pos)) => entries.push(Entry { key, key_pos, value: node }),
                None => {
                    let key = match node.kind {
                        Kind::Scalar { text, .. } if node.odd.is_none() => Some(text),
                        Kind::Scalar { .. } | Kind::Null | Kind::List(_) | Kind::Map(_) => None,
                    };
                    *pending = Some((key, node.pos));
                }
            },
        }
    }
}

fn odd(anchor: usize, tagged: bool) -> Option<&'static str> {
    match (anchor, tagged) {
        (0, false) => None,
        (0, true) => Some("a tag (`!name`)"),
        (_, _) => Some("an anchor (`&name`)"),
    }
}

/// Byte offsets to lines and columns.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn start(&self, span: &Span) -> Pos {
        self.pos(span.start.byte_offset())
    }

    /// The place of a byte. The end of the text is shown at the end of its last line, not on the empty line after it.
    fn pos(&self, byte: Option<usize>) -> Pos {
        let mut byte = byte.unwrap_or(0).min(self.text.len());
        if byte == self.text.len() && self.text.ends_with('\n') {
            byte -= 1;
        }
        let line = self.starts.partition_point(|start| *start <= byte).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.text.get(start..byte).map_or(0, |before| before.chars().count()) + 1;
        Pos { line, column }
    }
}

/// The parser's own words may quote the text; whatever it says stays on one line.
fn one_line(text: &str) -> String {
    if text.chars().any(char::is_control) { quoted(text) } else { text.to_owned() }
}

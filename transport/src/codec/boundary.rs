//! Finds where a reply ends, and refuses a reply beyond the limits.
//!
//! The search continues where it stopped, so it reads each byte once. Only the type byte, the line
//! and the length of each element are read: the parser interprets them.

use resp_rs::resp3::MAX_LINE_LENGTH;

use super::{DEPTH, ELEMENTS, Malformed, REPLY_BYTES};

/// How far the first reply in a buffer was searched.
#[derive(Debug, Default)]
pub(super) struct Boundary {
    /// Where the first incomplete element begins.
    next: usize,
    /// The line of that element does not end before this position.
    searched: usize,
    /// The buffer must have this length before that element can be complete.
    wanted: usize,
    /// How many elements were announced so far.
    elements: usize,
    /// How many elements are missing at each depth. The outermost element is the reply itself.
    missing: Vec<usize>,
}

impl Boundary {
    /// The length of the first reply in `bytes`, if the reply is complete.
    ///
    /// If it is not, the caller must pass the same bytes and more next time. After a length was
    /// returned, it must pass the bytes after that reply.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if self.missing.is_empty() {
            self.missing.push(1);
        }
        while bytes.len() >= self.wanted {
            let Some(end) = self.element(bytes)? else {
                return Ok(None);
            };
            self.next = end;
            while self.missing.last() == Some(&0) {
                self.missing.pop();
            }
            if self.missing.is_empty() {
                (self.next, self.searched, self.wanted, self.elements) = (0, 0, 0, 0);
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// The end of the element at `next`. An array ends before its first element.
    fn element(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some(&letter) = bytes.get(self.next) else {
            return Ok(None);
        };
        let kind = ElementKind::of(letter)?;
        let Some(line_end) = self.line_end(bytes)? else {
            return Ok(None);
        };
        let line = &bytes[self.next + 1..line_end];
        let (end, children) = match kind {
            ElementKind::Line => (line_end + 2, 0),
            ElementKind::Text => {
                let text_end = length(letter, line)?.map(|bytes| bytes.saturating_add(2));
                ((line_end + 2).saturating_add(text_end.unwrap_or(0)), 0)
            }
            ElementKind::Items => (line_end + 2, length(letter, line)?.unwrap_or(0)),
            ElementKind::Pairs | ElementKind::Attribute => (
                line_end + 2,
                length(letter, line)?.unwrap_or(0).saturating_mul(2),
            ),
        };
        if end > REPLY_BYTES {
            return Err(Malformed(format!(
                "a reply of more than {REPLY_BYTES} bytes"
            )));
        }
        if end > bytes.len() {
            self.wanted = end;
            return Ok(None);
        }
        // An attribute precedes an element and does not count as one.
        if let (false, Some(missing)) = (kind == ElementKind::Attribute, self.missing.last_mut()) {
            *missing -= 1;
        }
        self.open(children)?;
        Ok(Some(end))
    }

    fn line_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let begin = self.next + 1;
        let from = self.searched.max(begin);
        let until = bytes.len().min(begin + MAX_LINE_LENGTH + 2);
        if let Some(at) = bytes[from..until]
            .windows(2)
            .position(|pair| pair == b"\r\n")
        {
            return Ok(Some(from + at));
        }
        if until == begin + MAX_LINE_LENGTH + 2 {
            return Err(Malformed(format!(
                "a line of more than {MAX_LINE_LENGTH} bytes"
            )));
        }
        // The last byte may be the first half of the line break.
        self.searched = begin.max(until - 1);
        Ok(None)
    }

    fn open(&mut self, children: usize) -> Result<(), Malformed> {
        self.elements = self.elements.saturating_add(children);
        if self.elements > ELEMENTS {
            return Err(Malformed(format!(
                "a reply of more than {ELEMENTS} elements"
            )));
        }
        if children > 0 {
            // BOUND: one entry for each depth, and one for the reply itself.
            if self.missing.len() > DEPTH {
                return Err(Malformed(format!(
                    "a reply with more than {DEPTH} nested arrays"
                )));
            }
            self.missing.push(children);
        }
        Ok(())
    }
}

/// What follows the type byte of an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    /// A line, which is the whole element.
    Line,
    /// A line with the length of a text, and the text.
    Text,
    /// A line with a number, and that many elements.
    Items,
    /// A line with a number, and that many pairs.
    Pairs,
    /// Like pairs, followed by the element that they belong to.
    Attribute,
}

impl ElementKind {
    fn of(letter: u8) -> Result<ElementKind, Malformed> {
        Ok(match letter {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => ElementKind::Line,
            b'$' | b'!' | b'=' => ElementKind::Text,
            b'*' | b'~' | b'>' => ElementKind::Items,
            b'%' => ElementKind::Pairs,
            b'|' => ElementKind::Attribute,
            b';' | b'.' => return Err(super::streamed()),
            _ => {
                return Err(Malformed(format!(
                    "a reply that begins with byte 0x{letter:02x}"
                )));
            }
        })
    }
}

/// The number on a line. `None` for a null (`$-1` and `*-1`).
fn length(letter: u8, line: &[u8]) -> Result<Option<usize>, Malformed> {
    match line {
        b"-1" if matches!(letter, b'$' | b'*') => Ok(None),
        b"?" => Err(super::streamed()),
        _ => {
            let number = str::from_utf8(line)
                .ok()
                .and_then(|digits| digits.parse().ok());
            number.map(Some).ok_or_else(|| {
                let line = String::from_utf8_lossy(&line[..line.len().min(20)]);
                Malformed(format!("a length of {line:?}"))
            })
        }
    }
}

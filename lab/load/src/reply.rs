//! Reading replies and judging them: every value's key, length and flags, and a sample of the contents.
//!
//! Sans-io: bytes go in, what they meant goes into a [`Counters`]. The client's codec, which shares nothing but words
//! with the writers of a server, says where replies begin and end; what they may be is judged here.

mod binary;

use guira_protocol::client::{self, Failure, Read, Reply, Value, failure};
use guira_protocol::word::reply;
use guira_workload::ValuePool;

use crate::counters::Counters;
use crate::protocol::{Command, Protocol};
use crate::request::Outbox;
use crate::source::Subject;

pub use crate::reply_error::ReplyError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Key, flags and length of every value, the contents of one in `sample` of them.
    Contents {
        /// One value in this many is compared byte by byte; 1 compares all.
        sample: u32,
    },
    /// As `Contents`, but the length may be any for which the contents are right: in a replayed trace the same key
    /// is set with different lengths.
    AnyLength {
        /// One value in this many is compared byte by byte; 1 compares all.
        sample: u32,
    },
    /// Only the form of the reply is checked: the floor server stores nothing, so it answers with
    /// any key and value.
    Framing,
}

#[derive(Debug)]
pub struct Judge {
    values: ValuePool,
    check: Check,
    flags: u32,
    /// Values until the next one whose contents are compared.
    until_sample: u32,
    /// ` FLAGS LEN\r\n` for the length seen last, so that equal lengths are not spelled again.
    tail: Vec<u8>,
    tail_len: Option<u32>,
}

impl Judge {
    /// A judge that knows the values of `values` and the flags of every item.
    #[must_use]
    pub const fn new(values: ValuePool, check: Check, flags: u32) -> Self {
        Self { values, check, flags, until_sample: 0, tail: Vec::new(), tail_len: None }
    }

    #[must_use]
    pub const fn values(&self) -> &ValuePool {
        &self.values
    }

    /// Reads as much of `input` as is complete; returns how many bytes were used.
    ///
    /// # Errors
    /// When the bytes are no reply to a request in flight, so that the rest cannot be parsed.
    pub fn read(
        &mut self,
        input: &[u8],
        outbox: &mut Outbox,
        counters: &mut Counters,
        now_ns: u64,
    ) -> Result<usize, ReplyError> {
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            let Some(front) = outbox.front() else { return Err(ReplyError::Unasked(excerpt(rest))) };
            let (command, keys_left, intended_ns) = (front.command, front.keys_left, front.intended_ns);
            let step = match (outbox.protocol(), command) {
                (Protocol::Binary, _) => self.read_packet(rest, outbox, counters)?,
                (Protocol::Text, Command::Get) => self.read_get(rest, keys_left, outbox, counters)?,
                (Protocol::Text, _) => read_line_reply(command, rest, counters)?,
            };
            match step {
                Step::NeedMore => break,
                Step::Value(len) => used += len,
                Step::Finished(len) => {
                    used += len;
                    finish(command, now_ns.saturating_sub(intended_ns), outbox, counters);
                }
            }
        }
        Ok(used)
    }

    #[inline]
    fn read_get(
        &mut self,
        rest: &[u8],
        keys_left: u32,
        outbox: &mut Outbox,
        counters: &mut Counters,
    ) -> Result<Step, ReplyError> {
        // Without an open key the oldest one belongs to a later request.
        if keys_left > 0
            && let Some(len) = self.read_expected(rest, outbox, counters)
        {
            return Ok(Step::Value(len));
        }
        match client::read(rest, u32::MAX) {
            Read::Unfinished(_) => Ok(Step::NeedMore),
            Read::Reply(Reply::End, length) => {
                close_missed(outbox, counters);
                Ok(Step::Finished(length))
            }
            Read::Reply(Reply::Value(value), length) => {
                self.judge_value(&value, outbox, counters);
                Ok(Step::Value(length))
            }
            Read::Reply(reply, length) => refused_get(reply.line(), length, outbox, counters),
            Read::TooLong { .. } | Read::Broken => Err(ReplyError::Malformed(excerpt(rest))),
        }
    }

    /// The common case in one comparison: the value of the oldest open key with the length it was set with.
    #[inline]
    fn read_expected(&mut self, rest: &[u8], outbox: &mut Outbox, counters: &mut Counters) -> Option<usize> {
        let (awaited, key) = outbox.front_key()?;
        let value_len = awaited.subject.value_len;
        if self.tail_len != Some(value_len) {
            self.spell_tail(value_len);
        }
        let after_key = 6 + key.len();
        let line_len = after_key + self.tail.len();
        let total = line_len + value_len as usize + 2;
        let head = rest.get(..total)?;
        if !head.starts_with(reply::spaced::VALUE)
            || !head.ends_with(b"\r\n")
            || head[after_key..line_len] != self.tail[..]
        {
            return None;
        }
        if self.check != Check::Framing {
            if &head[6..after_key] != key {
                return None;
            }
            if self.is_sampled() {
                self.compare(awaited.subject.id, &head[line_len..total - 2], key, counters);
            }
        }
        counters.counts.gets += 1;
        counters.counts.hits += 1;
        outbox.key_found();
        Some(total)
    }

    fn spell_tail(&mut self, value_len: u32) {
        self.tail.clear();
        for number in [self.flags, value_len] {
            self.tail.push(b' ');
            self.tail.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        self.tail.extend_from_slice(b"\r\n");
        self.tail_len = Some(value_len);
    }

    #[inline]
    fn is_sampled(&mut self) -> bool {
        if self.until_sample > 0 {
            self.until_sample -= 1;
            return false;
        }
        self.until_sample = match self.check {
            Check::Contents { sample } | Check::AnyLength { sample } => sample.saturating_sub(1),
            Check::Framing => 0,
        };
        true
    }

    fn compare(&self, id: u64, value: &[u8], key: &[u8], counters: &mut Counters) {
        counters.counts.contents_checked += 1;
        if self.values.get(id, value.len()) != Some(value) {
            counters.wrong(|| {
                format!("the value of {:?} has wrong contents: {:?}", excerpt(key), excerpt(value))
            });
        }
    }

    /// Judges a value that is not simply the next expected one: keys before it were missed, or it is wrong.
    fn judge_value(&mut self, value: &Value<'_>, outbox: &mut Outbox, counters: &mut Counters) {
        let is_open = outbox.front().is_some_and(|front| front.keys_left > 0);
        if self.check == Check::Framing && is_open {
            counters.counts.gets += 1;
            counters.counts.hits += 1;
            outbox.key_found();
            return;
        }
        if !skip_to_key(value.key, outbox, counters) {
            counters
                .wrong(|| format!("received a value for {:?}, which was not requested", excerpt(value.key)));
            return;
        }
        let Some((awaited, _)) = outbox.front_key() else { return };
        counters.counts.gets += 1;
        counters.counts.hits += 1;
        self.judge_item(awaited.subject, value.key, value.flags, value.value, counters);
        outbox.key_found();
    }

    /// Counts a value that came for this key alone, and judges it.
    pub(crate) fn judge_found(
        &mut self,
        subject: Subject,
        key: &[u8],
        flags: u32,
        value: &[u8],
        counters: &mut Counters,
    ) {
        counters.counts.gets += 1;
        counters.counts.hits += 1;
        if self.check != Check::Framing {
            self.judge_item(subject, key, flags.into(), value, counters);
        }
    }

    /// Judges the flags, the length and (of some) the contents of a value that was found under its key.
    fn judge_item(
        &mut self,
        subject: Subject,
        key: &[u8],
        flags: u64,
        value: &[u8],
        counters: &mut Counters,
    ) {
        let expected = subject.value_len as usize;
        if flags != u64::from(self.flags) {
            let set = self.flags;
            counters.wrong(|| format!("the value of {:?} has flags {flags}, not {set}", excerpt(key)));
        } else if matches!(self.check, Check::Contents { .. }) && value.len() != expected {
            counters.wrong(|| {
                format!("the value of {:?} has {} bytes, not {expected}", excerpt(key), value.len())
            });
        } else if self.is_sampled() {
            self.compare(subject.id, value, key, counters);
        }
    }
}

/// The result of parsing the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    NeedMore,
    /// A value of this many bytes; the request continues.
    Value(usize),
    /// The last bytes of a reply.
    Finished(usize),
}

/// Closes open keys as missed up to the one that is called `key`; false when none is.
fn skip_to_key(key: &[u8], outbox: &mut Outbox, counters: &mut Counters) -> bool {
    while outbox.front().is_some_and(|front| front.keys_left > 0) {
        match outbox.front_key() {
            Some((_, expected)) if expected == key => return true,
            _ => {
                counters.counts.gets += 1;
                outbox.key_missed();
            }
        }
    }
    false
}

fn close_missed(outbox: &mut Outbox, counters: &mut Counters) {
    while outbox.front().is_some_and(|front| front.keys_left > 0) {
        counters.counts.gets += 1;
        outbox.key_missed();
    }
}

fn refused_get(
    line: &[u8],
    length: usize,
    outbox: &mut Outbox,
    counters: &mut Counters,
) -> Result<Step, ReplyError> {
    let Some(Failure::Server(_)) = failure(line) else {
        return Err(ReplyError::Unexpected { line: excerpt(line), command: Command::Get });
    };
    counters.refused(|| excerpt(line));
    close_missed(outbox, counters);
    Ok(Step::Finished(length))
}

fn read_line_reply(command: Command, rest: &[u8], counters: &mut Counters) -> Result<Step, ReplyError> {
    // Most replies, without a search for their end.
    if command != Command::Delete
        && let Some(b"\r\n") = rest.strip_prefix(reply::STORED).and_then(|end| end.get(..2))
    {
        return Ok(Step::Finished(reply::STORED.len() + 2));
    }
    let (line, length) = match client::read(rest, u32::MAX) {
        Read::Unfinished(_) => return Ok(Step::NeedMore),
        Read::Reply(reply, length) => (reply.line(), length),
        Read::TooLong { .. } | Read::Broken => return Err(ReplyError::Malformed(excerpt(rest))),
    };
    let is_answer = command == Command::Delete && matches!(line, reply::DELETED | reply::NOT_FOUND);
    if !is_answer {
        if !matches!(failure(line), Some(Failure::Server(_))) && line != reply::NOT_STORED {
            return Err(ReplyError::Unexpected { line: excerpt(line), command });
        }
        counters.refused(|| excerpt(line));
    }
    Ok(Step::Finished(length))
}

#[inline]
fn finish(command: Command, latency_ns: u64, outbox: &mut Outbox, counters: &mut Counters) {
    outbox.close_front();
    note_answer(command, latency_ns, counters);
}

/// Counts a command that was answered.
#[inline]
pub(crate) fn note_answer(command: Command, latency_ns: u64, counters: &mut Counters) {
    counters.counts.commands += 1;
    match command {
        Command::Get => counters.get_ns.saturating_record(latency_ns),
        Command::Set => {
            counters.counts.sets += 1;
            counters.set_ns.saturating_record(latency_ns);
        }
        Command::Fill => {
            counters.counts.fills += 1;
            counters.set_ns.saturating_record(latency_ns);
        }
        Command::Delete => {
            counters.counts.deletes += 1;
            counters.set_ns.saturating_record(latency_ns);
        }
    }
}

/// The beginning of some bytes, for a message.
fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(60)];
    String::from_utf8_lossy(shown).trim_end().to_owned()
}

#[cfg(test)]
mod tests;

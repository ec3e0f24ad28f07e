//! A trace being read.

use std::io::{self, BufRead, BufReader, Read};

use super::format::other;
use super::headed::Columns;
use super::{Burst, Format, Key, Place, Request, TraceError, TraceErrorKind};
use super::{binary, lines, twitter, zstd};

/// Bytes at the start of the input by which the format is guessed.
const PEEK_LEN: usize = 4096;

/// What a broken request of a trace leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Refuse,
    /// It is left out, and counted.
    Skip,
}

/// A trace being read: an iterator over its requests, which ends after an error.
pub struct Trace {
    input: Box<dyn BufRead>,
    format: Format,
    broken: Broken,
    /// Lines or records read so far.
    number: u64,
    line: Vec<u8>,
    /// What the first line named, where it does.
    columns: Option<Columns>,
    /// Requests of the last line that are still to come.
    pending: Option<Burst>,
    skipped: u64,
    first_skipped: Option<TraceError>,
    failed: bool,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Trace")
            .field("format", &self.format)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// Reads requests from `input`, plain or compressed with zstd, written as `format` or as it looks like. A broken
    /// request is refused.
    ///
    /// # Errors
    /// When the first bytes cannot be read or decompressed, or are those of something else.
    pub fn new(input: impl Read + 'static, format: Option<Format>) -> Result<Self, TraceError> {
        let refuse = |kind| TraceError { place: Place::Request, number: 1, kind };
        let fail = |error| refuse(TraceErrorKind::Read(error));
        let mut raw = BufReader::with_capacity(1 << 16, input);
        let is_zstd = raw.fill_buf().map_err(fail)?.starts_with(&zstd::MAGIC);
        let mut input: Box<dyn BufRead> = if is_zstd {
            Box::new(BufReader::with_capacity(1 << 16, zstd::Frames::new(raw)))
        } else {
            Box::new(raw)
        };
        let start = input.fill_buf().map_err(fail)?;
        let start = &start[..start.len().min(PEEK_LEN)];
        // Whoever says that it is a binary format knows better than its first bytes.
        if format.is_none_or(Format::is_text)
            && let Some(other) = other(start)
        {
            return Err(refuse(TraceErrorKind::Other(other)));
        }
        let guess = || Format::guess(start).ok_or_else(|| refuse(TraceErrorKind::Unrecognised));
        let format = format.map_or_else(guess, Ok)?;
        Ok(Self {
            input,
            format,
            broken: Broken::Refuse,
            number: 0,
            line: Vec::new(),
            columns: None,
            pending: None,
            skipped: 0,
            first_skipped: None,
            failed: false,
        })
    }

    /// The same trace, with broken requests treated as `broken` says. What cannot be read or decompressed, or a first
    /// line that names no columns, is refused in any case.
    #[must_use]
    pub fn on_broken(self, broken: Broken) -> Self {
        Self { broken, ..self }
    }

    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// How many broken requests were skipped so far, and what was wrong with the first of them.
    #[must_use]
    pub const fn skipped(&self) -> (u64, Option<&TraceError>) {
        (self.skipped, self.first_skipped.as_ref())
    }

    fn read(&mut self) -> Result<Option<Burst>, TraceErrorKind> {
        match self.format {
            Format::BeU32 => {
                let key = self.read_record::<4>()?;
                Ok(key.map(|bytes| Request::number(u32::from_be_bytes(bytes).into()).into()))
            }
            Format::BeU64 => {
                let key = self.read_record::<8>()?;
                Ok(key.map(|bytes| Request::number(u64::from_be_bytes(bytes)).into()))
            }
            Format::OracleGeneral => {
                let record = self.read_record::<{ binary::ORACLE_LEN }>()?;
                Ok(record.map(|record| binary::oracle(&record).into()))
            }
            _ => {
                while self.read_line()? {
                    if !lines::is_comment(&self.line)
                        && let Some(burst) = self.parse_line()?
                    {
                        return Ok(Some(burst));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Reads what is in the line; none if it is the one that names the columns.
    fn parse_line(&mut self) -> Result<Option<Burst>, TraceErrorKind> {
        let line = self.line.as_slice();
        match self.format {
            Format::TwitterCsv => twitter::parse(line).map(Some),
            Format::HeadedCsv => match &self.columns {
                Some(columns) => columns.parse(line).map(Some),
                None => {
                    self.columns = Some(Columns::named(line)?);
                    Ok(None)
                }
            },
            Format::Msr => lines::msr(line).map(Some),
            Format::Ibm => lines::ibm(line).map(Some),
            Format::Lis => lines::lis(line).map(Some),
            Format::Sized => lines::sized(line).map(Some),
            Format::Text | Format::BeU32 | Format::BeU64 | Format::OracleGeneral => {
                lines::text(line).map(Some)
            }
        }
    }

    fn read_record<const LEN: usize>(&mut self) -> Result<Option<[u8; LEN]>, TraceErrorKind> {
        let mut bytes = [0; LEN];
        let mut filled = 0;
        self.number += 1;
        while filled < LEN {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(TraceErrorKind::Truncated(filled)),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceErrorKind::Read(error)),
            }
        }
        Ok(Some(bytes))
    }

    /// Reads the next line, without its end and blanks around it; false at the end of the input.
    fn read_line(&mut self) -> Result<bool, TraceErrorKind> {
        const LINE_LEN_MAX: usize = 1 << 16;
        self.line.clear();
        self.number += 1;
        let limit = LINE_LEN_MAX as u64 + 1;
        let mut limited = (&mut self.input).take(limit);
        let count = limited.read_until(b'\n', &mut self.line).map_err(TraceErrorKind::Read)?;
        if count > LINE_LEN_MAX {
            if self.line.last() != Some(&b'\n') {
                self.input.skip_until(b'\n').map_err(TraceErrorKind::Read)?;
            }
            return Err(TraceErrorKind::LineTooLong(LINE_LEN_MAX));
        }
        let kept = self.line.trim_ascii_end().len();
        self.line.truncate(kept);
        let blanks = self.line.len() - self.line.trim_ascii_start().len();
        self.line.drain(..blanks);
        Ok(count > 0)
    }

    /// The next request of those that the last line stands for.
    fn next_pending(&mut self) -> Option<Request> {
        let burst = self.pending.as_mut()?;
        burst.left = burst.left.saturating_sub(1);
        if burst.left == 0 {
            return self.pending.take().map(|burst| burst.request);
        }
        let request = burst.request.clone();
        if let Key::Number(number) = &mut burst.request.key {
            *number = number.wrapping_add(burst.stride);
        }
        Some(request)
    }

    /// The error, or none if it was skipped.
    fn judge(&mut self, kind: TraceErrorKind) -> Option<TraceError> {
        let place = if self.format.is_text() { Place::Line } else { Place::Request };
        let is_skipped = self.broken == Broken::Skip && kind.is_local();
        let error = TraceError { place, number: self.number, kind };
        if !is_skipped {
            self.failed = true;
            return Some(error);
        }
        self.skipped += 1;
        self.first_skipped.get_or_insert(error);
        None
    }
}

impl Iterator for Trace {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(request) = self.next_pending() {
            return Some(Ok(request));
        }
        while !self.failed {
            match self.read() {
                Ok(None) => return None,
                Ok(Some(Burst { left: 0, .. })) => {}
                Ok(Some(Burst { request, left: 1, .. })) => return Some(Ok(request)),
                Ok(Some(burst)) => {
                    self.pending = Some(burst);
                    return self.next_pending().map(Ok);
                }
                Err(kind) => {
                    if let Some(error) = self.judge(kind) {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }
}

//! The text protocols, classic and meta: lines in, batches of requests out; and gets that are answered in pieces.

use super::batch::{Batch, KeyOfGet, Kind};
use super::interpreter::Interpreter;
use super::long_value::{Announcement, LINE_END};
use super::reader::Reader;
use super::runner::Pause;
use super::state::{Phase, ProtocolState};
use crate::latency::Series;
use guira_commands::{Data, GetKey, Item, refuse_block};
use guira_contract::{Key, Session};
use guira_protocol::{
    Command, Cut, Fault, Get, GetForm, KeyBuffer, Keys, Line, Meta, MetaSet, Noreply, Replies, Store, Unique,
    Usual, cut, parse, usual,
};
use guira_serving::Outbox;

/// A line that does not belong in a batch.
#[derive(Debug)]
pub(crate) enum Special<'a> {
    /// The line has not ended.
    Unfinished,
    TooLong,
    /// The line is wrong.
    Fault(Fault, Line<'a>),
    Keys(Get<'a>, Line<'a>),
    /// A store whose data has not arrived altogether.
    Incomplete(Line<'a>),
}

/// A command that a data block follows.
#[derive(Clone, Copy, Debug)]
enum Announced<'a> {
    Store(Store<'a>),
    Meta(MetaSet<'a>),
}

impl<'a> Announced<'a> {
    /// The command in a line that was understood before.
    fn of(line: &'a [u8]) -> Option<Self> {
        match parse(Line { text: line, length: line.len() + 2 }).ok()? {
            Command::Store(store) => Some(Announced::Store(store)),
            Command::Meta(Meta::Set(set)) => Some(Announced::Meta(set)),
            Command::Meta(Meta::Get(_) | Meta::Delete(_) | Meta::Arithmetic(..))
            | Command::Get(_)
            | Command::Delete(_)
            | Command::Arithmetic(_)
            | Command::Touch(_)
            | Command::MetaDebug(_)
            | Command::Server(_) => None,
        }
    }

    /// Bytes of the data block, without its line end.
    fn length(&self) -> u32 {
        match self {
            Announced::Store(store) => store.length,
            Announced::Meta(set) => set.length,
        }
    }
}

/// The data block of `length` bytes at `at`, with its line end, if all of it is there.
#[inline(always)]
fn block(input: &[u8], at: usize, length: u32) -> Option<&[u8]> {
    input.get(at..at.checked_add(length as usize + 2)?)
}

impl<S: Session> Reader<'_, S> {
    /// Reads the request at `at` into a batch, if it belongs into one.
    #[inline(always)]
    pub(crate) fn read_command<'a, const N: usize>(
        self,
        batch: &mut Batch<Kind<'a>, S::Guess, N>,
        input: &'a [u8],
        at: usize,
    ) -> Result<(), Special<'a>> {
        if let Some((usual, length)) = usual(&input[at..]) {
            let end = at + length;
            match usual {
                Usual::Get(key) => {
                    let get = GetKey { key, form: GetForm::Plain(Unique::Omitted) };
                    self.push(batch, key, Item::Get(get), end);
                    return Ok(());
                }
                Usual::Set(store) => {
                    if let Some(block) = block(input, end, store.length) {
                        self.push(batch, store.key, Item::Store(store, block), end + block.len());
                        return Ok(());
                    }
                }
            }
        }
        self.read_unusual(batch, input, at)
    }

    #[inline(never)]
    fn read_unusual<'a, const N: usize>(
        self,
        batch: &mut Batch<Kind<'a>, S::Guess, N>,
        input: &'a [u8],
        at: usize,
    ) -> Result<(), Special<'a>> {
        let line = match cut(&input[at..]) {
            Cut::Line(line) => line,
            Cut::Unfinished => return Err(Special::Unfinished),
            Cut::TooLong => return Err(Special::TooLong),
        };
        let command = match parse(line) {
            Ok(command) => command,
            Err(fault) => return Err(Special::Fault(fault, line)),
        };
        if let Some(fault) = self.refusal(&command, line.length) {
            return Err(Special::Fault(fault, line));
        }
        let end = at + line.length;
        // Each pushes for itself, so that a request is written where it stays.
        match command {
            Command::Get(get) => {
                let Some(key) = get.keys.single() else {
                    return Err(Special::Keys(get, line));
                };
                let get = GetKey { key, form: get.form };
                self.push(batch, key, Item::Get(get), end);
            }
            Command::Store(store) => {
                let Some(block) = block(input, end, store.length) else {
                    return Err(Special::Incomplete(line));
                };
                self.push(batch, store.key, Item::Store(store, block), end + block.len());
            }
            Command::Meta(meta) => return self.read_meta(batch, meta, line, input, end),
            Command::MetaDebug(key) => self.push_meta(batch, &key, Item::MetaDebug(key), end),
            Command::Delete(delete) => self.push(batch, delete.key, Item::Delete(delete), end),
            Command::Arithmetic(step) => self.push(batch, step.key, Item::Arithmetic(step), end),
            Command::Touch(touch) => self.push(batch, touch.key, Item::Touch(touch), end),
            Command::Server(command) => batch.push(Kind::Server(command), end),
        }
        Ok(())
    }

    #[inline(always)]
    fn read_meta<'a, const N: usize>(
        self,
        batch: &mut Batch<Kind<'a>, S::Guess, N>,
        meta: Meta<'a>,
        line: Line<'a>,
        input: &'a [u8],
        end: usize,
    ) -> Result<(), Special<'a>> {
        match meta {
            Meta::Set(set) => {
                let Some(block) = block(input, end, set.length) else {
                    return Err(Special::Incomplete(line));
                };
                self.push_meta(batch, &set.key, Item::Meta(meta, block), end + block.len());
            }
            Meta::Get(get) | Meta::Delete(get) | Meta::Arithmetic(get, _) => {
                self.push_meta(batch, &get.key, Item::Meta(meta, &[]), end);
            }
        }
        Ok(())
    }
}

impl<S: Session> Interpreter<S> {
    /// Reads and executes a batch. Returns how many bytes were taken: none if more have to come.
    pub(crate) fn commands(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        self.runner
            .read_and_run(state, outbox, |reader, batch, at| reader.read_command(batch, input, at))
            .unwrap_or_else(|special| {
                let taken = self.special(state, special, outbox);
                self.runner.meter.forget();
                taken
            })
    }

    /// Handles input that does not belong in a batch. Returns the number of bytes consumed.
    fn special(
        &mut self,
        state: &mut ProtocolState<S>,
        special: Special<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        match special {
            Special::Unfinished => 0,
            Special::TooLong => {
                state.phase = Phase::Over;
                0
            }
            Special::Fault(fault, line) => {
                match fault {
                    _ if let Some(reply) = self.runner.cluster_reply(line.text) => {
                        outbox.buffer().line(&reply)
                    }
                    Fault::Answer(text) => outbox.buffer().line(text),
                    Fault::Silent => {}
                    Fault::Close => state.phase = Phase::Over,
                    Fault::Swallow { answer, noreply, bytes } => {
                        if noreply == Noreply::No {
                            outbox.buffer().line(answer);
                        }
                        state.phase = Phase::Swallow(bytes);
                    }
                }
                line.length
            }
            Special::Keys(get, line) => {
                let taken = self.keys(state, line, get, outbox);
                // A get in several pieces is measured up to the first.
                if self.runner.meter.is_on() && !self.runner.forwarding.is_in_use() {
                    self.runner.meter.end(std::iter::once(Series::of_form(get.form)));
                }
                taken
            }
            // This worker stores it, wherever its key is at home.
            Special::Incomplete(_) if outbox.open_slots() > 0 => 0,
            Special::Incomplete(line) => self.incomplete(state, line, outbox),
        }
    }

    /// A data block that has not arrived altogether.
    fn incomplete(
        &mut self,
        state: &mut ProtocolState<S>,
        line: Line<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let Some(announced) = Announced::of(line.text) else {
            return 0;
        };
        let whole_max = self.whole_max(state);
        let incoming = match announced {
            Announced::Store(store) => self.runner.executor.receive(&store, whole_max, outbox),
            Announced::Meta(set) => {
                let mut buffer: KeyBuffer = [0; 336];
                self.runner.executor.meta_receive(set.key.bytes(&mut buffer), &set, whole_max, outbox)
            }
        };
        let (head, value) = (line.length, u64::from(announced.length()) + LINE_END.len() as u64);
        state.phase.await_value(incoming, || Announcement::Line(line.text.into()), head, value)
    }

    /// There is no memory for the rest of the value that `line` announced.
    pub(crate) fn give_up_line(&mut self, line: &[u8], outbox: &mut Outbox<S::Pin>) {
        match Announced::of(line) {
            Some(Announced::Store(store)) => self.runner.executor.give_up(&store, outbox),
            Some(Announced::Meta(set)) => {
                let mut buffer: KeyBuffer = [0; 336];
                self.runner.executor.meta_give_up(set.key.bytes(&mut buffer), &set, outbox);
            }
            None => {}
        }
    }

    /// Stores the value that `line` announced; `end` follows it.
    pub(crate) fn store_line(
        &mut self,
        line: &[u8],
        value: S::Pending,
        end: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) {
        let Some(announced) = Announced::of(line) else {
            return;
        };
        let whole = end == LINE_END;
        match &announced {
            Announced::Store(store) if whole => {
                let key = Key { bytes: store.key, hash: self.runner.executor.prefetch(store.key) };
                self.runner.executor.store(key, S::Guess::default(), store, Data::Pending(value), outbox);
            }
            Announced::Meta(set) if whole => {
                let mut buffer: KeyBuffer = [0; 336];
                let bytes = set.key.bytes(&mut buffer);
                let key = Key { bytes, hash: self.runner.executor.prefetch(bytes) };
                self.runner.executor.meta_set(key, S::Guess::default(), set, Data::Pending(value), outbox);
            }
            Announced::Store(store) => refuse_block(store.noreply, outbox),
            // A bad block is reported even if the ms is quiet.
            Announced::Meta(_) => refuse_block(Noreply::No, outbox),
        }
    }

    /// Answers more keys of a get, whose line has arrived.
    pub(crate) fn more_keys(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        form: GetForm,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let Cut::Line(line) = cut(input) else {
            state.phase = Phase::Over;
            return 0;
        };
        state.phase = Phase::Command;
        self.keys(state, line, Get { keys: Keys::of(line.text), form }, outbox)
    }

    /// Answers the keys of a get, which are the end of a line, until the outbox is full. Returns how many bytes were taken.
    fn keys(
        &mut self,
        state: &mut ProtocolState<S>,
        line: Line<'_>,
        Get { mut keys, form }: Get<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        if form == GetForm::Lease
            && let Err(refusal) = self.runner.executor.gives_leases()
        {
            outbox.buffer().line(refusal);
            return line.length;
        }
        let length = line.text.len();
        loop {
            let begin = length - keys.rest();
            let mut batch = Batch::<KeyOfGet<'_>, S::Guess>::new();
            let reader = self.runner.reader();
            batch.fill(|batch, _| {
                let get = GetKey { key: keys.next().ok_or(())?, form };
                let hash = reader.hash_and_prefetch(get.key, || get.effect());
                batch.push(KeyOfGet { hash, get }, length - keys.rest());
                Ok::<_, ()>(())
            });
            self.runner.begin_uses(batch.len());
            let ran = self.runner.run_batch(state, &mut batch, outbox, |_, _| {});
            self.runner.end_uses();
            let taken = batch.end(ran.done, begin);
            match ran.pause {
                Pause::Stopped => return line.length,
                Pause::Waits => {}
                Pause::Done | Pause::OutboxFull if taken == length => {
                    outbox.buffer().put_short(*b"END\r\n");
                    return line.length;
                }
                Pause::Done if !self.runner.slice.is_cut() => continue,
                Pause::Done | Pause::OutboxFull => {}
            }
            state.phase = Phase::Keys(form);
            return taken;
        }
    }
}

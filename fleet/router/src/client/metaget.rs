//! mcrouter's command `metaget KEY …`: the expiry of items. Servers are sent memcached's `me`.

use super::{After, KEYS_MAX, Turn};
use crate::calls::{Ends, KeyCount};
use crate::failures::BAD_KEY;
use crate::render::Form;
use guira_protocol::{Fault, Line};
use guira_routing::{Dialect, KEY_MAX, Op, Request};

const NAME: &[u8] = b"metaget ";

/// The keys of the command, if the line is one.
pub(super) fn keys(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(NAME)
}

impl Turn<'_> {
    pub(super) fn metaget(&mut self, keys: &[u8], line: Line<'_>) -> After {
        let keys: Vec<&[u8]> = keys.split(|byte| *byte == b' ').filter(|key| !key.is_empty()).collect();
        let is_key =
            |key: &&[u8]| key.len() <= KEY_MAX && key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        if keys.is_empty() || keys.len() > KEYS_MAX || !keys.iter().all(is_key) {
            return self.fault(Fault::Answer(BAD_KEY), line.length);
        }
        let many = KeyCount::Many(Ends::Here);
        let call = self.flow.calls.begin(self.client.from, self.outbox.defer(), Form::Metaget, many);
        for key in keys {
            self.executed += 1;
            self.client.window.sent(1);
            let ticket = self.flow.calls.key(call, key);
            self.start(&Request { dialect: Dialect::Meta, ..Request::classic(Op::MetaGet, key) }, ticket);
        }
        self.flow.calls.end_of_keys(call, Ends::Here);
        After::Taken(line.length)
    }
}

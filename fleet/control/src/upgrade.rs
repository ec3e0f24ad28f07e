//! A member upgrades its server by a command of the operator, once for each order.

use crate::etcd::{EtcdError, Outcome};
use crate::order::{Order, OrderState};
use crate::store::Store;
use std::process::{Child, Command, Stdio};

/// The upgrade command of a member, and its running child.
#[derive(Debug)]
pub(crate) struct Upgrades {
    command: Option<String>,
    running: Option<Child>,
}

impl Upgrades {
    pub(crate) fn new(command: Option<String>) -> Self {
        Upgrades { command, running: None }
    }

    pub(crate) fn are_possible(&self) -> bool {
        self.command.is_some()
    }

    /// Continues with an order for the server.
    pub(crate) fn obey(&mut self, store: &mut Store, order: &Order) -> Result<(), EtcdError> {
        match (order.state, &mut self.running) {
            (OrderState::Requested, None) => self.begin(store, order),
            (OrderState::Running, Some(child)) => {
                let ended = match child.try_wait() {
                    Ok(None) => return Ok(()),
                    Ok(Some(status)) if status.success() => Ok(()),
                    Ok(Some(status)) => Err(status.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                self.running = None;
                end(store, order, ended)
            }
            (OrderState::Running, None) => {
                end(store, order, Err("the member restarted during the upgrade: check the server".to_owned()))
            }
            // The child belongs to an order that has ended with its lease.
            (OrderState::Requested, Some(child)) => match child.try_wait() {
                Ok(None) => Ok(()),
                _ => {
                    self.running = None;
                    self.begin(store, order)
                }
            },
            _ => Ok(()),
        }
    }

    fn begin(&mut self, store: &mut Store, order: &Order) -> Result<(), EtcdError> {
        let Some(command) = &self.command else {
            return end(store, order, Err("the member has no --upgrade-command".to_owned()));
        };
        // First said, then done: it is done once, whatever happens to this process.
        if store.report(order, OrderState::Running, "")? == Outcome::Refused {
            return Ok(());
        }
        tracing::info!(server = order.server, "running the upgrade command: {command}");
        let mut shell = Command::new("/bin/sh");
        let child = shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        match child {
            Ok(child) => self.running = Some(child),
            // The next turn finds the order running without a child.
            // Operator: Correct the member's `--upgrade-command`, then run `guira fleet upgrade` again.
            Err(error) => tracing::error!("cannot run the upgrade command {command}: {error}"),
        }
        Ok(())
    }
}

fn end(store: &mut Store, order: &Order, ended: Result<(), String>) -> Result<(), EtcdError> {
    let (state, said) = match ended {
        Ok(()) => (OrderState::Done, String::new()),
        Err(said) => (OrderState::Failed, said),
    };
    tracing::info!(server = order.server, "the upgrade command ended: {state:?} {said}");
    store.report(order, state, &said).map(drop)
}

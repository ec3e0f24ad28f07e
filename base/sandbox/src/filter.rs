//! Makes filters of the table of calls.
//!
//! The kernel runs all filters of a process for each call, and the most severe of their actions applies. It precomputes
//! which calls all filters allow whatever their arguments (from Linux 5.11 on), so the number of filters and of rows
//! has no cost for these.

use crate::calls::{Arch, Call, FORBIDDEN, Group, LISTED, NEW_PROCESSES, UNREADABLE, When};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

const PR_SET_NAME: u64 = 15;
const PR_SET_VMA: u64 = 0x5356_4d41;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
/// Addresses and routes, among the protocols of `AF_NETLINK`.
const NETLINK_ROUTE: u64 = 0;
const FIONBIO: u64 = 0x5421;
const SIGABRT: u64 = 6;
const BPF_MAP_DELETE_ELEM: u64 = 3;
const CLONE_THREAD: u64 = 0x0001_0000;

/// The filters of a process, in the order in which they are installed: the last one refuses further filters.
pub(crate) fn filters(arch: Arch, process: u32) -> Result<Vec<BpfProgram>, BackendError> {
    let refuse = |groups, error: Error| {
        let actions = Actions { others: SeccompAction::Allow, rows: SeccompAction::Errno(error as u32) };
        filter(rules(groups, arch, process)?, actions, arch)
    };
    let decided = calls(NEW_PROCESSES).chain(calls(UNREADABLE));
    let decided = decided.filter_map(|call| Some((call.number(arch)?.into(), Vec::new())));
    let mut allowed = rules(LISTED, arch, process)?;
    allowed.extend(decided);
    Ok(vec![
        refuse(UNREADABLE, Error::NotImplemented)?,
        refuse(NEW_PROCESSES, Error::NotPermitted)?,
        filter(allowed, Actions { others: SeccompAction::Trap, rows: SeccompAction::Allow }, arch)?,
    ])
}

/// The calls whose refusal is no question of the kernel's age: they return EPERM.
pub(crate) fn forbidden(arch: Arch) -> impl Iterator<Item = u32> {
    let conditional = calls(LISTED).filter(|call| call.when != When::Always);
    calls(FORBIDDEN).chain(conditional).filter_map(move |call| call.number(arch))
}

/// The name of a call, if the table has it.
pub(crate) fn name(arch: Arch, number: u32) -> Option<&'static str> {
    let mut all = calls(FORBIDDEN).chain(calls(LISTED));
    all.find(|call| call.number(arch) == Some(number)).map(|call| call.name)
}

pub(crate) fn calls(groups: &'static [Group]) -> impl Iterator<Item = &'static Call> {
    groups.iter().flat_map(|group| group.calls)
}

/// The errno that a refused call returns.
#[derive(Clone, Copy)]
enum Error {
    NotPermitted = 1,
    NotImplemented = 38,
}

struct Actions {
    /// For calls that have no rule, or whose arguments match none.
    others: SeccompAction,
    rows: SeccompAction,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(rules: Rules, actions: Actions, arch: Arch) -> Result<BpfProgram, BackendError> {
    let arch = match arch {
        Arch::X86_64 => TargetArch::x86_64,
        Arch::Aarch64 => TargetArch::aarch64,
    };
    SeccompFilter::new(rules, actions.others, actions.rows, arch)?.try_into()
}

fn rules(groups: &'static [Group], arch: Arch, process: u32) -> Result<Rules, BackendError> {
    let numbered = calls(groups).filter_map(|call| Some((call.number(arch)?, call.when)));
    numbered.map(|(number, when)| Ok((number.into(), alternatives(when, process)?))).collect()
}

/// The rules of which one has to match; none if the call always matches.
fn alternatives(when: When, process: u32) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |conditions: &[Condition]| {
        SeccompRule::new(conditions.iter().map(Condition::build).collect::<Result<_, _>>()?)
    };
    let rules: &[&[Condition]] = match when {
        When::Always => &[],
        When::Naming => &[&[equals(0, PR_SET_NAME)], &[equals(0, PR_SET_VMA)]],
        When::WriteOrExecute => &[&[lacks(2, PROT_WRITE)], &[lacks(2, PROT_EXEC)]],
        When::NoCode => &[&[lacks(2, PROT_EXEC)]],
        When::Families => &[
            &[equals(0, AF_INET)],
            &[equals(0, AF_INET6)],
            &[equals(0, AF_UNIX)],
            &[equals(0, AF_NETLINK), equals(2, NETLINK_ROUTE)],
        ],
        When::NonBlocking => &[&[equals(1, FIONBIO)]],
        When::LimitRead => &[&[is_null(2)]],
        When::OwnProcess => &[&[equals(0, process.into())]],
        When::Abort => &[&[equals(1, SIGABRT)]],
        When::EntryRemoval => &[&[equals(0, BPF_MAP_DELETE_ELEM)]],
        When::NewProcess => &[&[lacks(0, CLONE_THREAD)]],
    };
    rules.iter().map(|conditions| rule(conditions)).collect()
}

/// What an argument has to be.
struct Condition {
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
}

impl Condition {
    fn build(&self) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(self.argument, self.length.clone(), self.operator.clone(), self.value)
    }
}

/// An `int` of this value.
const fn equals(argument: u8, value: u64) -> Condition {
    Condition { argument, length: SeccompCmpArgLen::Dword, operator: SeccompCmpOp::Eq, value }
}

/// Flags without `flag`, which is one of the lower 32.
const fn lacks(argument: u8, flag: u64) -> Condition {
    Condition { argument, length: SeccompCmpArgLen::Dword, operator: SeccompCmpOp::MaskedEq(flag), value: 0 }
}

const fn is_null(argument: u8) -> Condition {
    Condition { argument, length: SeccompCmpArgLen::Qword, operator: SeccompCmpOp::Eq, value: 0 }
}

//! The one place that knows all engines: their names, what they are made of, and their options.
//!
//! An engine name is a preset: `memc3` means `--index cuckoo --policy auto`. Index and policy can be named by
//! themselves, with options behind a colon: `cuckoo:depth=5,versions=4096`.

#![forbid(unsafe_code)]

mod setup;

pub use guira_items::{
    ClassOptions, DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, EngineOptions, Eviction, Hashing,
    MINIMUM as MEMORY_LEAST, OpenError, Residence, SHORT_LIVED_MAX,
};
pub use guira_slab::{HugePages, NoPlace, Policy, PolicyControl, RegionPlace};
pub use setup::{Lasting, Setup};

use guira_contract::{Access, Control, Engine};
pub use guira_contract::{Emptied, Opened, OptionError, Preview, Spec};
use guira_fleec::{BucketClock, Buckets, FleecEngine, FleecOptions};
use guira_mica::{
    DEFAULT_PARTITIONS, Fits, ItemStore, Log, LogPolicy, MAX_PARTITIONS, MicaEngine, MicaOptions, NO_POLICY,
};
use guira_slab::{Chained, Cuckoo, Scheme, SearchLimits, SlabEngine, SlabOptions};
use std::any::Any;

/// The engine that runs unless another is named.
pub const DEFAULT_ENGINE: &str = "memc3";

/// What an engine is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    name: &'static str,
    index: Spec,
    parts: Parts,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Parts {
    Slab { kind: Kind, policy: Policy, choosing: Choosing, search: SearchLimits, versions: usize },
    Fleec { clock: BucketClock, buckets: Buckets },
    Mica { policy: LogPolicy, partitions: usize, access: Access },
    MicaStore { partitions: usize, access: Access },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choosing {
    Fixed,
    /// It is the first one, and others are changed to.
    Auto,
}

/// The policy that is chosen while the server runs, out of those of the indexes cuckoo and chained.
pub const AUTO: &str = "auto";
const ABOUT_AUTO: &str = "the server chooses the policy that would miss least on a sample of its requests";

/// The indexes that any policy goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cuckoo,
    Chained,
}

/// What an index is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Slab(Kind),
    Fleec(Buckets),
    Mica,
    MicaStore,
}

/// The engine as one that can have any [`Policy`], if it is one.
pub fn policy_control(engine: &dyn Control) -> Option<&dyn PolicyControl> {
    fn of<S: Scheme>(engine: &dyn Any) -> Option<&dyn PolicyControl> {
        engine.downcast_ref::<SlabEngine<S>>().map(|engine| engine as &dyn PolicyControl)
    }
    of::<Cuckoo>(engine).or_else(|| of::<Chained>(engine))
}

/// What can be done with an engine, whichever it is.
///
/// An engine is a type, so that nothing of it is dispatched while requests are served; its host is compiled once for each.
pub trait Host {
    type Output;
    fn run<E: Engine + Clone>(self, opened: Opened<E>) -> Self::Output;
}

#[derive(Clone, Copy, Debug)]
struct Preset {
    name: &'static str,
    index: &'static str,
    policy: &'static str,
    /// Where `auto` begins.
    first: &'static str,
}

const PRESETS: &[Preset] = &[
    Preset { name: DEFAULT_ENGINE, index: Cuckoo::NAME, policy: AUTO, first: "clock" },
    Preset { name: "classic", index: Chained::NAME, policy: AUTO, first: "seg-lru" },
    Preset { name: "fleec", index: LOCK_FREE, policy: BucketClock::NAME, first: "" },
    Preset { name: "memclock", index: LOCKED, policy: BucketClock::NAME, first: "" },
    Preset { name: "mica", index: LOSSY, policy: "approx-lru", first: "" },
    Preset { name: "mica-store", index: CHAINED_BUCKETS, policy: NO_POLICY, first: "" },
];

/// FLeeC's index, of which its policy is a part.
const LOCK_FREE: &str = "lock-free";
/// The same with a lock for each bucket.
const LOCKED: &str = "locked-buckets";
/// MICA's index, with logs whose order is the policy.
const LOSSY: &str = "lossy";
/// The same where nothing goes: buckets that are full go on in spare ones.
const CHAINED_BUCKETS: &str = "bulk-chained";

impl Default for Choice {
    fn default() -> Self {
        let preset = PRESETS[0];
        Choice {
            name: preset.name,
            index: Spec { name: preset.index.to_owned(), options: Vec::new() },
            parts: Parts::Slab {
                kind: Kind::Cuckoo,
                policy: Policy::default(),
                choosing: Choosing::Auto,
                search: SearchLimits::default(),
                versions: SlabOptions::default().stripes,
            },
        }
    }
}

const INDEXES: &[(&str, Family)] = &[
    (Cuckoo::NAME, Family::Slab(Kind::Cuckoo)),
    (Chained::NAME, Family::Slab(Kind::Chained)),
    (LOCK_FREE, Family::Fleec(Buckets::Open)),
    (LOCKED, Family::Fleec(Buckets::Locked)),
    (LOSSY, Family::Mica),
    (CHAINED_BUCKETS, Family::MicaStore),
];

/// A policy of the indexes cuckoo and chained. The error lists [`AUTO`] too.
fn read_policy(spec: &Spec) -> Result<Policy, OptionError> {
    Policy::read(spec).map_err(|error| match error {
        OptionError::Unknown { what: "policy", name, known } => {
            OptionError::Unknown { what: "policy", name, known: format!("{AUTO}, {known}") }
        }
        other => other,
    })
}

/// What is called `name` in `table`.
fn known<T: Copy>(what: &'static str, name: &str, table: &[(&'static str, T)]) -> Result<T, OptionError> {
    match table.iter().find(|(known, _)| *known == name) {
        Some((_, thing)) => Ok(*thing),
        None => {
            let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            Err(OptionError::Unknown { what, name: name.to_owned(), known: names.join(", ") })
        }
    }
}

/// Whether a preset's index is of this family.
fn is_first_of(preset: &Preset, family: Family) -> bool {
    let own = INDEXES.iter().find(|(name, _)| *name == preset.index);
    own.is_some_and(|(_, own)| std::mem::discriminant(own) == std::mem::discriminant(&family))
}

impl Choice {
    pub fn names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|preset| preset.name)
    }

    /// The name of every policy that goes with the indexes cuckoo and chained, and one line about it.
    pub fn policies() -> impl Iterator<Item = (&'static str, &'static str)> {
        std::iter::once((AUTO, ABOUT_AUTO)).chain(Policy::all().map(|(policy, about)| (policy.name(), about)))
    }

    /// The engine called `engine`, with another index or policy if one is given, each as `NAME[:key=value,…]`.
    ///
    /// # Errors
    /// If there is no such engine, index, policy or option, or a value is not allowed. The error lists what there is.
    pub fn new(engine: &str, index: Option<&str>, policy: Option<&str>) -> Result<Self, OptionError> {
        let presets: Vec<(&'static str, Preset)> =
            PRESETS.iter().map(|preset| (preset.name, *preset)).collect();
        let preset = known("engine", engine, &presets)?;
        let index = Spec::parse(index.unwrap_or(preset.index))?;
        let family = known("index", &index.name, INDEXES)?;
        // A policy of the preset's own goes with its own family of indexes only.
        let own = known("index", preset.index, INDEXES)?;
        let is_own = std::mem::discriminant(&own) == std::mem::discriminant(&family);
        if preset.policy == NO_POLICY && !is_own {
            // It promises to lose nothing.
            return known("index", &index.name, &[(preset.index, ())]).map(|()| Choice::default());
        }
        let usual = PRESETS.iter().find(|other| is_first_of(other, family)).unwrap_or(&PRESETS[0]);
        let usual = if is_own { &preset } else { usual };
        let policy = Spec::parse(policy.unwrap_or(usual.policy))?;
        let kind = match family {
            Family::Slab(kind) => kind,
            Family::Fleec(buckets) => {
                index.allow(&[])?;
                let parts = Parts::Fleec { clock: BucketClock::read(&policy)?, buckets };
                return Ok(Choice { name: preset.name, index, parts });
            }
            Family::Mica | Family::MicaStore => {
                index.allow(&["partitions"])?;
                let partitions = index.number("partitions", 1..=MAX_PARTITIONS as u64)?;
                let partitions = partitions.map_or(DEFAULT_PARTITIONS, |partitions| partitions as usize);
                let access = Access::default();
                let parts = if family == Family::Mica {
                    Parts::Mica { policy: LogPolicy::read(&policy)?, partitions, access }
                } else if policy.name == NO_POLICY {
                    policy.allow(&[])?;
                    Parts::MicaStore { partitions, access }
                } else {
                    return known("policy", &policy.name, &[(NO_POLICY, ())]).map(|()| Choice::default());
                };
                return Ok(Choice { name: preset.name, index, parts });
            }
        };
        index.allow(match kind {
            Kind::Cuckoo => &["depth", "paths", "versions"],
            Kind::Chained => &["versions"],
        })?;
        let default = SearchLimits::default();
        let search = SearchLimits {
            depth: index.number("depth", 1..=32)?.unwrap_or(u64::from(default.depth)) as u32,
            paths: index.number("paths", 2..=65_536)?.unwrap_or(u64::from(default.paths)) as u32,
        };
        let stripes = SlabOptions::default().stripes as u64;
        let versions = index.number("versions", 1..=1 << 24)?.unwrap_or(stripes) as usize;
        let (policy, choosing) = if policy.name == AUTO {
            policy.allow(&[])?;
            (Policy::read(&Spec::parse(usual.first)?)?, Choosing::Auto)
        } else {
            (read_policy(&policy)?, Choosing::Fixed)
        };
        let parts = Parts::Slab { kind, policy, choosing, search, versions };
        Ok(Choice { name: preset.name, index, parts })
    }

    /// The same with partitions that sessions may access so: `erew`, `crew` or `crcw`.
    ///
    /// # Errors
    /// If there is no such mode, or the engine has no partitions.
    pub fn with_access(self, mode: &str) -> Result<Self, OptionError> {
        let parts = match self.parts {
            Parts::Mica { policy, partitions, .. } => {
                Parts::Mica { policy, partitions, access: Access::read(mode)? }
            }
            Parts::MicaStore { partitions, .. } => {
                Parts::MicaStore { partitions, access: Access::read(mode)? }
            }
            Parts::Slab { .. } | Parts::Fleec { .. } => {
                return Err(OptionError::Value {
                    name: "access".to_owned(),
                    value: mode.to_owned(),
                    expected: "allowed: only the engines mica and mica-store have access modes",
                });
            }
        };
        Ok(Choice { parts, ..self })
    }

    /// Opens the engine, if its Region lasts with what was there, and gives it to `host`.
    ///
    /// # Errors
    /// If an option makes no sense, there is too little memory, the system refuses address space or to lock memory, or the
    /// Region's file cannot be used.
    pub fn open<H: Host>(&self, setup: &Setup, host: H) -> Result<H::Output, OpenError> {
        let engine = setup.engine;
        match self.parts {
            Parts::Slab { kind, policy, search, versions, .. } => {
                let options =
                    SlabOptions { engine, classes: setup.classes, policy, stripes: versions, search };
                match kind {
                    Kind::Cuckoo => Ok(host.run(open_cuckoo(setup, options)?)),
                    Kind::Chained => Ok(host.run(open_chained(setup, options)?)),
                }
            }
            Parts::Fleec { clock, buckets } => {
                let options = FleecOptions { engine, classes: setup.classes, clock, buckets };
                Ok(host.run(open_fleec(setup, options)?))
            }
            Parts::Mica { policy, partitions, access } if setup.engine.eviction == Eviction::On => {
                let options = MicaOptions { policy, partitions, access, ..MicaOptions::default() };
                Ok(host.run(open_log(setup, options)?))
            }
            // A log cannot keep what comes to its head: where nothing is to go items lie elsewhere.
            Parts::Mica { partitions, access, .. } | Parts::MicaStore { partitions, access } => {
                let options = MicaOptions { partitions, access, ..MicaOptions::default() };
                Ok(host.run(open_fits(setup, options)?))
            }
        }
    }

    /// Opens the default engine with the options of the setup and gives it to `host`, which is then compiled for this
    /// engine only. For tests of a host.
    ///
    /// # Errors
    /// As [`Choice::open`].
    pub fn open_default<H: Host>(setup: &Setup, host: H) -> Result<H::Output, OpenError> {
        let options = SlabOptions { classes: setup.classes, ..SlabOptions::default() };
        Ok(host.run(open_cuckoo(setup, options)?))
    }

    /// Whether the engine could go on with such a Region, which another server uses.
    ///
    /// # Errors
    /// Why not.
    pub fn accepts(&self, setup: &Setup, preview: &Preview, now_unix: u64) -> Result<(), Emptied> {
        let classes = setup.classes;
        let engine = EngineOptions { reserve: setup.reserve(), ..setup.engine };
        match self.parts {
            Parts::Slab { kind, policy, search, versions, .. } => {
                let options = SlabOptions { engine, classes, policy, stripes: versions, search };
                match kind {
                    Kind::Cuckoo => SlabEngine::<Cuckoo>::accepts(options, preview, now_unix),
                    Kind::Chained => SlabEngine::<Chained>::accepts(options, preview, now_unix),
                }
            }
            Parts::Fleec { clock, buckets } => {
                FleecEngine::accepts(FleecOptions { engine, classes, clock, buckets }, preview, now_unix)
            }
            Parts::Mica { policy, partitions, access } if setup.engine.eviction == Eviction::On => {
                let options = MicaOptions { engine, policy, partitions, access, ..MicaOptions::default() };
                MicaEngine::<Log>::accepts(options, preview, now_unix)
            }
            Parts::Mica { partitions, access, .. } | Parts::MicaStore { partitions, access } => {
                let options = MicaOptions { engine, partitions, access, ..MicaOptions::default() };
                MicaEngine::<Fits>::accepts(options, preview, now_unix)
            }
        }
    }

    /// What it is made of, by name, for `stats settings`.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut pairs = vec![("engine", self.name.to_owned()), ("index", self.index.name.clone())];
        if let Parts::Slab { kind, search, versions, .. } = self.parts {
            if kind == Kind::Cuckoo {
                pairs.push(("index_depth", search.depth.to_string()));
                pairs.push(("index_paths", search.paths.to_string()));
            }
            pairs.push(("index_versions", versions.to_string()));
        }
        if let Some(access) = self.access() {
            pairs.push(("index_access", access.to_owned()));
        }
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Who may access its partitions, if it has any.
    pub fn access(&self) -> Option<&'static str> {
        match self.parts {
            Parts::Mica { access, .. } | Parts::MicaStore { access, .. } => Some(access.name()),
            Parts::Slab { .. } | Parts::Fleec { .. } => None,
        }
    }

    /// Why this engine does not honour `value` of an option of the server, if it does not. Every engine honours the options that are not
    /// named here.
    pub fn refusal(&self, option: &str, value: &str) -> Option<&'static str> {
        let is_mica = matches!(self.parts, Parts::Mica { .. } | Parts::MicaStore { .. });
        match (option, value) {
            ("growth-factor" | "smallest-item", _) if is_mica => Some("it has no slab classes"),
            ("short-lived", seconds) if is_mica && seconds != "0" => Some(
                "the memory of an item in a log comes free when the log comes round, and a store finds it when it needs it",
            ),
            ("access", _) if !is_mica => Some("only mica and mica-store have access modes"),
            ("disable-evictions", "false") if matches!(self.parts, Parts::MicaStore { .. }) => {
                Some("it never evicts")
            }
            _ => None,
        }
    }

    /// The index, as it is given on the command line.
    pub fn index(&self) -> String {
        self.index.to_string()
    }

    /// Whether any policy of the indexes cuckoo and chained can be changed to.
    pub fn can_choose(&self) -> bool {
        matches!(self.parts, Parts::Slab { .. })
    }

    pub fn is_auto(&self) -> bool {
        matches!(self.parts, Parts::Slab { choosing: Choosing::Auto, .. })
    }

    /// The policy, as it is given on the command line.
    pub fn policy(&self) -> String {
        match self.parts {
            Parts::Slab { choosing: Choosing::Auto, .. } => AUTO.to_owned(),
            Parts::Slab { policy, .. } => policy.spec().to_string(),
            Parts::Fleec { clock, .. } => clock.spec().to_string(),
            Parts::Mica { policy, .. } => policy.spec().to_string(),
            Parts::MicaStore { .. } => NO_POLICY.to_owned(),
        }
    }
}

// One function for each engine: what opens an engine is compiled here, not in each crate that has a host for it.

fn open_cuckoo(setup: &Setup, options: SlabOptions) -> Result<Opened<SlabEngine<Cuckoo>>, OpenError> {
    open_slab(setup, options)
}

fn open_chained(setup: &Setup, options: SlabOptions) -> Result<Opened<SlabEngine<Chained>>, OpenError> {
    open_slab(setup, options)
}

fn open_log(setup: &Setup, options: MicaOptions) -> Result<Opened<MicaEngine<Log>>, OpenError> {
    open_mica(setup, options)
}

fn open_fits(setup: &Setup, options: MicaOptions) -> Result<Opened<MicaEngine<Fits>>, OpenError> {
    open_mica(setup, options)
}

fn open_fleec(setup: &Setup, options: FleecOptions) -> Result<Opened<FleecEngine>, OpenError> {
    open_with(setup, |engine| {
        let options = FleecOptions { engine, ..options };
        match &setup.lasting {
            Some(last) => FleecEngine::open_lasting(options, &last.place, last.now_unix),
            None => FleecEngine::open(options).map(Opened::anew),
        }
    })
}

fn open_slab<S: Scheme>(setup: &Setup, options: SlabOptions) -> Result<Opened<SlabEngine<S>>, OpenError> {
    open_with(setup, |engine| {
        let options = SlabOptions { engine, ..options };
        match &setup.lasting {
            Some(last) => SlabEngine::open_lasting(options, &last.place, last.now_unix),
            None => SlabEngine::open(options).map(Opened::anew),
        }
    })
}

fn open_mica<S: ItemStore>(setup: &Setup, options: MicaOptions) -> Result<Opened<MicaEngine<S>>, OpenError> {
    open_with(setup, |engine| {
        let options = MicaOptions { engine, ..options };
        match &setup.lasting {
            Some(last) => MicaEngine::open_lasting(options, &last.place, last.now_unix),
            None => MicaEngine::open(options).map(Opened::anew),
        }
    })
}

/// Opens an engine with the reserve that is wanted. A default reserve is done without if the system refuses it.
fn open_with<E>(
    setup: &Setup,
    open: impl Fn(EngineOptions) -> Result<Opened<E>, OpenError>,
) -> Result<Opened<E>, OpenError> {
    match open(EngineOptions { reserve: setup.reserve(), ..setup.engine }) {
        Err(OpenError::Reserve { .. } | OpenError::Lock { .. })
            if setup.reserve.is_none() && setup.lasting.is_none() =>
        {
            open(EngineOptions { reserve: setup.engine.memory, ..setup.engine })
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says how much memory an engine has, and how much it can have.
    struct Sizes;

    impl Host for Sizes {
        type Output = (u64, u64);

        fn run<E: Engine + Clone>(self, opened: Opened<E>) -> (u64, u64) {
            let stats = opened.engine.stats();
            (stats.memory_limit, stats.memory_reserve)
        }
    }

    /// Says how many items an engine has.
    struct Count;

    impl Host for Count {
        type Output = u64;
        fn run<E: Engine + Clone>(self, opened: Opened<E>) -> u64 {
            opened.engine.stats().items
        }
    }

    fn kind(choice: &Choice) -> Option<Kind> {
        match choice.parts {
            Parts::Slab { kind, .. } => Some(kind),
            Parts::Fleec { .. } | Parts::Mica { .. } | Parts::MicaStore { .. } => None,
        }
    }

    #[test]
    fn a_preset_names_index_and_policy() {
        let choice = Choice::new("memc3", None, None).unwrap();
        assert_eq!((choice.index(), choice.policy()), ("cuckoo".to_owned(), "auto".to_owned()));
        let same = Choice::new("memc3", Some("cuckoo"), Some("auto")).unwrap();
        assert!(choice == same && choice.is_auto() && choice.can_choose());
        let fixed = Choice::new("memc3", None, Some("clock")).unwrap();
        assert!(fixed.policy() == "clock:bits=2" && !fixed.is_auto() && fixed.can_choose());
        assert!(Choice::new("memc3", None, Some("auto:bits=1")).is_err());
        let classic = Choice::new("classic", None, None).unwrap();
        assert_eq!((classic.index(), kind(&classic)), ("chained".to_owned(), Some(Kind::Chained)));
        assert!(matches!(
            classic.parts,
            Parts::Slab { policy: Policy::SegLru(_), choosing: Choosing::Auto, .. }
        ));
        assert_eq!(kind(&Choice::new("memc3", Some("chained"), None).unwrap()), Some(Kind::Chained));
        let fleec = Choice::new("fleec", None, None).unwrap();
        assert_eq!(
            (fleec.index(), fleec.policy()),
            ("lock-free".to_owned(), "bucket-clock:bits=2".to_owned())
        );
        assert!(!fleec.can_choose() && Choice::new("fleec", None, Some("auto")).is_err());
        assert_eq!(kind(&Choice::new("fleec", Some("cuckoo"), None).unwrap()), Some(Kind::Cuckoo));
        let memclock = Choice::new("memclock", None, None).unwrap();
        assert_eq!(memclock.index(), "locked-buckets");
        assert!(matches!(memclock.parts, Parts::Fleec { buckets: Buckets::Locked, .. }));
        let mica = Choice::new("mica", None, None).unwrap();
        assert_eq!((mica.index(), mica.policy()), ("lossy".to_owned(), "approx-lru".to_owned()));
        assert_eq!(Choice::new("memc3", Some("lossy"), None).unwrap().policy(), "approx-lru");
        assert!(Choice::new("mica", Some("cuckoo"), None).unwrap().is_auto());
    }

    #[test]
    fn partitions_and_access_modes_are_mica_s() {
        let mica = Choice::new("mica", Some("lossy:partitions=4"), Some("fifo")).unwrap();
        let mica = mica.with_access("erew").unwrap();
        assert_eq!(mica.parts, Parts::Mica { policy: LogPolicy::Fifo, partitions: 4, access: Access::Erew });
        assert!(mica.settings().contains(&("index_access".to_owned(), "erew".to_owned())));
        let error = |mode| Choice::default().with_access(mode).unwrap_err().to_string();
        assert!(error("erew").contains("only the engines mica"), "{}", error("erew"));
        assert!(mica.with_access("read").unwrap_err().to_string().contains("erew, crew, crcw"));
        assert!(Choice::new("mica", Some("lossy:partitions=0"), None).is_err());
        let store = Choice::new("mica-store", None, None).unwrap().with_access("crew").unwrap();
        assert_eq!((store.index(), store.policy()), ("bulk-chained".to_owned(), "none".to_owned()));
        let error = Choice::new("mica-store", None, Some("lru")).unwrap_err().to_string();
        assert_eq!(error, "unknown policy 'lru'; use one of: none");
    }

    #[test]
    fn every_preset_opens() {
        for preset in PRESETS {
            let choice = Choice::new(preset.name, None, None).unwrap();
            assert_eq!(choice.open(&Setup::new(16 << 20, 1 << 20, 1), Count).unwrap(), 0, "{}", preset.name);
        }
    }

    #[test]
    fn options_of_the_index_are_read() {
        let choice = Choice::new("memc3", Some("cuckoo:depth=7,paths=99,versions=64"), None).unwrap();
        let search = SearchLimits { depth: 7, paths: 99 };
        let (kind, policy, choosing) = (Kind::Cuckoo, Policy::default(), Choosing::Auto);
        let wanted = Parts::Slab { kind, policy, choosing, search, versions: 64 };
        assert_eq!(choice.parts, wanted);
        assert!(choice.open(&Setup::new(16 << 20, 1 << 20, 1), Count).is_ok());
    }

    #[test]
    fn a_setup_reaches_the_engine() {
        let choice = Choice::new("memc3", Some("cuckoo:versions=64"), None).unwrap();
        let setup = Setup::new(16 << 20, 1 << 19, 1);
        assert_eq!(setup.reserve(), 64 << 20);
        assert_eq!(Setup { machine: Some(40 << 20), ..setup.clone() }.reserve(), 40 << 20);
        assert_eq!(Setup { machine: Some(1 << 20), ..setup.clone() }.reserve(), 16 << 20);
        assert_eq!(Setup { reserve: Some(1 << 40), ..setup.clone() }.reserve(), 1 << 40);
        for preset in PRESETS {
            let choice = Choice::new(preset.name, None, None).unwrap();
            let sizes = choice.open(&setup, Sizes).unwrap();
            assert_eq!(sizes, (16 << 20, 64 << 20), "{}", preset.name);
        }
        let lasting = Lasting { place: RegionPlace::at("/proc/no-region"), now_unix: 1_700_000_000 };
        let nowhere = Setup { lasting: Some(lasting), ..Setup::new(16 << 20, 1 << 20, 1) };
        for preset in PRESETS {
            let choice = Choice::new(preset.name, None, None).unwrap();
            let refused = choice.open(&nowhere, Count);
            assert!(matches!(refused, Err(OpenError::Region { .. })), "{}", preset.name);
        }
        let wrong = Setup {
            classes: ClassOptions { factor: 1.0, ..ClassOptions::default() },
            ..Setup::new(16 << 20, 1 << 20, 1)
        };
        assert!(choice.open(&wrong, Count).unwrap_err().to_string().contains("factor"));
    }

    #[test]
    fn errors_list_what_there_is() {
        let error = |engine, index, policy| Choice::new(engine, index, policy).unwrap_err().to_string();
        assert_eq!(
            error("redis", None, None),
            "unknown engine 'redis'; use one of: memc3, classic, fleec, memclock, mica, mica-store"
        );
        assert_eq!(
            error("memc3", Some("btree"), None),
            "unknown index 'btree'; use one of: cuckoo, chained, lock-free, locked-buckets, lossy, bulk-chained"
        );
        assert!(
            error("memc3", None, Some("mru"))
                .starts_with("unknown policy 'mru'; use one of: auto, clock, fifo, lru, ")
        );
        assert!(error("memc3", Some("cuckoo:deep=1"), None).contains("depth, paths, versions"));
        assert!(error("classic", Some("chained:depth=1"), None).contains("use one of: versions"));
        assert!(error("memc3", None, Some("clock:bit=2")).contains("unknown option"));
        assert_eq!(error("fleec", None, Some("lru")), "unknown policy 'lru'; use one of: bucket-clock");
        assert_eq!(
            error("mica-store", Some("lossy"), None),
            "unknown index 'lossy'; use one of: bulk-chained"
        );
        assert!(error("fleec", None, Some("bucket-clock:bits=9")).contains("1 to 8"));
        assert!(error("memc3", Some("cuckoo:depth=0"), None).contains("1 to 32"));
        assert!(error("memc3", Some("cuckoo:depth"), None).contains("key=value"));
    }
}

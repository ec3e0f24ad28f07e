//! The one place that knows all engines: their names, what they are made of, and their options.
//!
//! An engine name is a preset: `memc3` means `--index cuckoo --policy clock`. Index and policy can be named by
//! themselves, with options behind a colon: `cuckoo:depth=5,versions=4096`.

#![forbid(unsafe_code)]

mod setup;

pub use guira_slab::{
    DEFAULT_FACTOR, DEFAULT_SIZE_WEIGHT, DEFAULT_SMALLEST_ITEM, Eviction, HugePages, NoPlace, OpenError,
    RegionPlace, Residence,
};
pub use setup::{Lasting, Setup};

use guira_contract::Engine;
pub use guira_contract::{Opened, OptionError, Spec};
use guira_slab::{Chained, Cuckoo, Policy, Scheme, SearchLimits, SlabEngine, SlabOptions};

/// The engine that runs unless another is named.
pub const DEFAULT_ENGINE: &str = "memc3";

/// What an engine is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    name: &'static str,
    index: Spec,
    policy: Policy,
    kind: Kind,
    search: SearchLimits,
    versions: usize,
}

/// The indexes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cuckoo,
    Chained,
}

/// What can be done with an engine, whichever it is.
///
/// An engine is a type, so that nothing of it is dispatched while requests are served; whoever runs one is compiled once for each.
pub trait Host {
    /// What comes of it.
    type Output;
    /// Does it.
    fn run<E: Engine + Clone>(self, opened: Opened<E>) -> Self::Output;
}

/// A preset.
#[derive(Clone, Copy, Debug)]
struct Preset {
    name: &'static str,
    index: &'static str,
    policy: &'static str,
}

const PRESETS: &[Preset] = &[
    Preset { name: DEFAULT_ENGINE, index: Cuckoo::NAME, policy: "clock" },
    Preset { name: "classic", index: Chained::NAME, policy: "seg-lru" },
];

impl Default for Choice {
    fn default() -> Self {
        let spec = |name: &str| Spec { name: name.to_owned(), options: Vec::new() };
        let preset = PRESETS[0];
        Choice {
            name: preset.name,
            index: spec(preset.index),
            policy: Policy::default(),
            kind: Kind::Cuckoo,
            search: SearchLimits::default(),
            versions: SlabOptions::default().stripes,
        }
    }
}

const INDEXES: &[(&str, Kind)] = &[(Cuckoo::NAME, Kind::Cuckoo), (Chained::NAME, Kind::Chained)];

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

impl Choice {
    /// The engine called `engine`, with another index or policy if one is given, each as `NAME[:key=value,…]`.
    ///
    /// # Errors
    /// If there is no such engine, index, policy or option, or a value is not allowed. The error lists what there is.
    pub fn new(engine: &str, index: Option<&str>, policy: Option<&str>) -> Result<Self, OptionError> {
        let presets: Vec<(&'static str, Preset)> =
            PRESETS.iter().map(|preset| (preset.name, *preset)).collect();
        let preset = known("engine", engine, &presets)?;
        let index = Spec::parse(index.unwrap_or(preset.index))?;
        let policy = Policy::read(&Spec::parse(policy.unwrap_or(preset.policy))?)?;
        let kind = known("index", &index.name, INDEXES)?;
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
        Ok(Choice { name: preset.name, index, policy, kind, search, versions })
    }

    /// Opens the engine, if its Region lasts with what was there, and gives it to `host`.
    ///
    /// # Errors
    /// If an option makes no sense, there is too little memory, the system refuses address space or to lock memory, or the
    /// Region's file cannot be used.
    pub fn open<H: Host>(&self, setup: &Setup, host: H) -> Result<H::Output, OpenError> {
        match self.kind {
            Kind::Cuckoo => Ok(host.run(self.open_slab::<Cuckoo>(setup)?)),
            Kind::Chained => Ok(host.run(self.open_slab::<Chained>(setup)?)),
        }
    }

    fn open_slab<S: Scheme>(&self, setup: &Setup) -> Result<Opened<SlabEngine<S>>, OpenError> {
        let options = self.options(setup);
        match &setup.lasting {
            Some(lasting) => SlabEngine::open_lasting(options, &lasting.place, lasting.now_unix),
            None => open_in_memory(options, setup).map(Opened::anew),
        }
    }

    fn options(&self, setup: &Setup) -> SlabOptions {
        SlabOptions { policy: self.policy, stripes: self.versions, search: self.search, ..setup.slab() }
    }

    /// What it is made of, by name, for `stats settings`.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut pairs = vec![("engine", self.name.to_owned()), ("index", self.index.name.clone())];
        if self.kind == Kind::Cuckoo {
            pairs.push(("index_depth", self.search.depth.to_string()));
            pairs.push(("index_paths", self.search.paths.to_string()));
        }
        pairs.push(("index_versions", self.versions.to_string()));
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The index, as it is given on the command line.
    pub fn index(&self) -> String {
        self.index.to_string()
    }

    /// The policy, as it is given on the command line.
    pub fn policy(&self) -> String {
        self.policy.spec().to_string()
    }
}

/// A reserve that nobody has asked for is done without if the system refuses it.
fn open_in_memory<S: Scheme>(options: SlabOptions, setup: &Setup) -> Result<SlabEngine<S>, OpenError> {
    match SlabEngine::open(options) {
        Err(OpenError::Reserve { .. } | OpenError::Lock { .. }) if setup.reserve.is_none() => {
            SlabEngine::open(SlabOptions { reserve: options.memory, ..options })
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does nothing with an engine but to say how many items it has.
    struct Count;

    impl Host for Count {
        type Output = u64;
        fn run<E: Engine + Clone>(self, opened: Opened<E>) -> u64 {
            opened.engine.stats().items
        }
    }

    #[test]
    fn a_preset_names_index_and_policy() {
        let choice = Choice::new("memc3", None, None).unwrap();
        assert_eq!((choice.index(), choice.policy()), ("cuckoo".to_owned(), "clock:bits=2".to_owned()));
        let same = Choice::new("memc3", Some("cuckoo"), Some("clock")).unwrap();
        assert_eq!(choice, same);
        let classic = Choice::new("classic", None, None).unwrap();
        assert_eq!((classic.index(), classic.kind), ("chained".to_owned(), Kind::Chained));
        assert!(classic.policy().starts_with("seg-lru:hot_pct=20,warm_pct=40"), "{}", classic.policy());
        assert_eq!(Choice::new("memc3", Some("chained"), None).unwrap().kind, Kind::Chained);
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
        assert_eq!((choice.search.depth, choice.search.paths, choice.versions), (7, 99, 64));
        assert!(choice.open(&Setup::new(16 << 20, 1 << 20, 1), Count).is_ok());
    }

    #[test]
    fn a_setup_reaches_the_engine() {
        let choice = Choice::new("memc3", Some("cuckoo:versions=64"), None).unwrap();
        let setup = Setup {
            factor: 1.5,
            smallest_item: 48,
            eviction: Eviction::Off,
            huge_pages: Some(HugePages::No),
            residence: Residence::Locked,
            ..Setup::new(16 << 20, 1 << 19, 1)
        };
        assert_eq!((setup.reserve(), choice.options(&setup).reserve), (64 << 20, 64 << 20));
        assert_eq!(Setup { machine: Some(40 << 20), ..setup.clone() }.reserve(), 40 << 20);
        assert_eq!(Setup { machine: Some(1 << 20), ..setup.clone() }.reserve(), 16 << 20);
        assert_eq!(Setup { reserve: Some(1 << 40), ..setup.clone() }.reserve(), 1 << 40);
        let options = choice.options(&setup);
        assert_eq!((options.memory, options.max_item_size, options.stripes), (16 << 20, 1 << 19, 64));
        assert_eq!((options.factor, options.smallest_item), (1.5, 48));
        assert_eq!((options.eviction, options.residence), (Eviction::Off, Residence::Locked));
        assert_eq!(options.huge_pages, Some(HugePages::No));
        let lasting = Lasting { place: RegionPlace::at("/proc/no-region"), now_unix: 1_700_000_000 };
        let nowhere = Setup { lasting: Some(lasting), ..Setup::new(16 << 20, 1 << 20, 1) };
        assert!(matches!(choice.open(&nowhere, Count), Err(OpenError::Region { .. })));
        let wrong = Setup { factor: 1.0, ..Setup::new(16 << 20, 1 << 20, 1) };
        assert!(choice.open(&wrong, Count).unwrap_err().to_string().contains("factor"));
    }

    #[test]
    fn errors_list_what_there_is() {
        let error = |engine, index, policy| Choice::new(engine, index, policy).unwrap_err().to_string();
        assert_eq!(error("redis", None, None), "unknown engine 'redis'; there are: memc3, classic");
        assert_eq!(error("memc3", Some("btree"), None), "unknown index 'btree'; there are: cuckoo, chained");
        assert!(
            error("memc3", None, Some("mru"))
                .starts_with("unknown policy 'mru'; there are: clock, fifo, lru, ")
        );
        assert!(error("memc3", Some("cuckoo:deep=1"), None).contains("depth, paths, versions"));
        assert!(error("classic", Some("chained:depth=1"), None).contains("there are: versions"));
        assert!(error("memc3", None, Some("clock:bit=2")).contains("unknown option"));
        assert!(error("memc3", Some("cuckoo:depth=0"), None).contains("1 to 32"));
        assert!(error("memc3", Some("cuckoo:depth"), None).contains("key=value"));
    }
}

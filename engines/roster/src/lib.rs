//! The one place that knows all engines: their names, what they are made of, and their options.
//!
//! An engine name is a preset: `memc3` means `--index cuckoo --policy clock`. Index and policy can be named by
//! themselves, with options behind a colon: `cuckoo:depth=5,versions=4096`.

#![forbid(unsafe_code)]

mod setup;
mod spec;

pub use guira_slab::{
    DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, Eviction, HugePages, NoPlace, OpenError, Opened, RegionPlace,
    Residence,
};
pub use setup::{Lasting, Setup};
pub use spec::Spec;

pub use guira_contract::OptionError;
use guira_slab::{SearchLimits, SlabEngine, SlabOptions};

/// The engine that runs unless another is named.
pub const DEFAULT_ENGINE: &str = "memc3";

/// What an engine is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    name: &'static str,
    index: Spec,
    policy: Spec,
    search: SearchLimits,
    versions: usize,
}

/// A preset.
#[derive(Clone, Copy, Debug)]
struct Preset {
    name: &'static str,
    index: &'static str,
    policy: &'static str,
}

const PRESETS: &[Preset] = &[Preset { name: DEFAULT_ENGINE, index: "cuckoo", policy: "clock" }];
impl Default for Choice {
    fn default() -> Self {
        let spec = |name: &str| Spec { name: name.to_owned(), options: Vec::new() };
        let preset = PRESETS[0];
        Choice {
            name: preset.name,
            index: spec(preset.index),
            policy: spec(preset.policy),
            search: SearchLimits::default(),
            versions: SlabOptions::default().stripes,
        }
    }
}

const INDEXES: &[&str] = &["cuckoo"];
const POLICIES: &[&str] = &["clock"];

fn known(what: &'static str, name: &str, names: &[&'static str]) -> Result<(), OptionError> {
    if names.contains(&name) {
        return Ok(());
    }
    Err(OptionError::Unknown { what, name: name.to_owned(), known: names.join(", ") })
}

impl Choice {
    /// The engine called `engine`, with another index or policy if one is given, each as `NAME[:key=value,…]`.
    ///
    /// # Errors
    /// If there is no such engine, index, policy or option, or a value is not allowed. The error lists what there is.
    pub fn new(engine: &str, index: Option<&str>, policy: Option<&str>) -> Result<Self, OptionError> {
        let names: Vec<&'static str> = PRESETS.iter().map(|preset| preset.name).collect();
        known("engine", engine, &names)?;
        let preset = PRESETS.iter().find(|preset| preset.name == engine).copied().unwrap_or(PRESETS[0]);
        let index = Spec::parse(index.unwrap_or(preset.index))?;
        let policy = Spec::parse(policy.unwrap_or(preset.policy))?;
        known("index", &index.name, INDEXES)?;
        known("policy", &policy.name, POLICIES)?;
        policy.allow(&[])?;
        index.allow(&["depth", "paths", "versions"])?;
        let default = SearchLimits::default();
        let search = SearchLimits {
            depth: index.number("depth", 1..=32)?.unwrap_or(u64::from(default.depth)) as u32,
            paths: index.number("paths", 2..=65_536)?.unwrap_or(u64::from(default.paths)) as u32,
        };
        let stripes = SlabOptions::default().stripes as u64;
        let versions = index.number("versions", 1..=1 << 24)?.unwrap_or(stripes) as usize;
        Ok(Choice { name: preset.name, index, policy, search, versions })
    }

    /// Opens the engine; if its Region lasts, with what was there.
    ///
    /// # Errors
    /// If an option makes no sense, there is too little memory, the system refuses address space or to lock memory, or the
    /// Region's file cannot be used.
    pub fn open(&self, setup: &Setup) -> Result<Opened, OpenError> {
        let options = self.options(setup);
        match &setup.lasting {
            Some(lasting) => SlabEngine::open_lasting(options, &lasting.place, lasting.now_unix),
            None => Self::open_in_memory(options, setup).map(Opened::anew),
        }
    }

    /// A reserve that nobody has asked for is done without if the system refuses it.
    fn open_in_memory(options: SlabOptions, setup: &Setup) -> Result<SlabEngine, OpenError> {
        match SlabEngine::open(options) {
            Err(OpenError::Reserve { .. } | OpenError::Lock { .. }) if setup.reserve.is_none() => {
                SlabEngine::open(SlabOptions { reserve: options.memory, ..options })
            }
            opened => opened,
        }
    }

    fn options(&self, setup: &Setup) -> SlabOptions {
        SlabOptions { stripes: self.versions, search: self.search, ..setup.slab() }
    }

    /// What it is made of, by name, for `stats settings`.
    pub fn settings(&self) -> Vec<(String, String)> {
        let pairs = [
            ("engine", self.name.to_owned()),
            ("index", self.index.name.clone()),
            ("policy", self.policy.name.clone()),
            ("index_depth", self.search.depth.to_string()),
            ("index_paths", self.search.paths.to_string()),
            ("index_versions", self.versions.to_string()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The index, as it is given on the command line.
    pub fn index(&self) -> String {
        self.index.to_string()
    }

    /// The policy, as it is given on the command line.
    pub fn policy(&self) -> String {
        self.policy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_names_index_and_policy() {
        let choice = Choice::new("memc3", None, None).unwrap();
        assert_eq!((choice.index(), choice.policy()), ("cuckoo".to_owned(), "clock".to_owned()));
        let same = Choice::new("memc3", Some("cuckoo"), Some("clock")).unwrap();
        assert_eq!(choice, same);
    }

    #[test]
    fn options_of_the_index_are_read() {
        let choice = Choice::new("memc3", Some("cuckoo:depth=7,paths=99,versions=64"), None).unwrap();
        assert_eq!((choice.search.depth, choice.search.paths, choice.versions), (7, 99, 64));
        assert!(choice.open(&Setup::new(16 << 20, 1 << 20, 1)).is_ok());
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
        assert!(matches!(choice.open(&nowhere), Err(OpenError::Region { .. })));
        let wrong = Setup { factor: 1.0, ..Setup::new(16 << 20, 1 << 20, 1) };
        assert!(choice.open(&wrong).unwrap_err().to_string().contains("factor"));
    }

    #[test]
    fn errors_list_what_there_is() {
        let error = |engine, index, policy| Choice::new(engine, index, policy).unwrap_err().to_string();
        assert_eq!(error("redis", None, None), "unknown engine 'redis'; there are: memc3");
        assert_eq!(error("memc3", Some("btree"), None), "unknown index 'btree'; there are: cuckoo");
        assert_eq!(error("memc3", None, Some("lru")), "unknown policy 'lru'; there are: clock");
        assert!(error("memc3", Some("cuckoo:deep=1"), None).contains("depth, paths, versions"));
        assert!(error("memc3", None, Some("clock:bits=2")).contains("unknown option"));
        assert!(error("memc3", Some("cuckoo:depth=0"), None).contains("1 to 32"));
        assert!(error("memc3", Some("cuckoo:depth"), None).contains("key=value"));
    }
}

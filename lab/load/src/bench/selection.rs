//! Which parts of the bench are run.

use super::loads::{self, LoadSpec};
use super::parameters::{Parameters, Scale};
use super::parts::{PARTS, Part, When};
use super::routers;
use crate::error::LoadError;

#[derive(Debug, Clone)]
pub struct Selection {
    /// Closed loops, measured in operations per second of processor time.
    pub loads: Vec<LoadSpec>,
    pub parts: Vec<&'static Part>,
    /// Closed loops through routers.
    pub routed: Vec<LoadSpec>,
    pub parameters: Parameters,
}

impl Selection {
    /// The parts named in `only`; all but the long ones when it is empty.
    ///
    /// # Errors
    /// When a name is unknown.
    pub fn named(only: &[String], scale: Scale) -> Result<Self, LoadError> {
        let known: Vec<String> = described()?.into_iter().map(|(name, _)| name).collect();
        if let Some(unknown) = only.iter().find(|name| !known.contains(name)) {
            return Err(LoadError::Options(format!(
                "unknown part {unknown:?}; use some of {}",
                known.join(", ")
            )));
        }
        let is_named = |name: &str| only.iter().any(|other| other == name);
        let is_wanted = |name: &str, when| is_named(name) || (only.is_empty() && when == When::Always);
        let mut loads = loads::all()?;
        loads.retain(|spec| is_wanted(spec.name, when(spec)));
        loads.iter_mut().for_each(|spec| spec.settle = scale.part(spec.settle));
        Ok(Self {
            loads,
            parts: PARTS.iter().filter(|part| is_wanted(part.name, part.when)).collect(),
            routed: routers::loads().into_iter().filter(|spec| is_named(spec.name)).collect(),
            parameters: Parameters::new(scale),
        })
    }
}

fn when(load: &LoadSpec) -> When {
    if loads::FEW.contains(&load.name) { When::Named("") } else { When::Always }
}

/// A line for each part: its name and what it is.
///
/// # Errors
/// Never in practice: the loads are constants.
pub fn described() -> Result<Vec<(String, String)>, LoadError> {
    let line = |name: &str, about: &str, when| {
        let note = match when {
            When::Always => String::new(),
            When::Named(options) => format!(" (only when named{options})"),
        };
        (name.to_owned(), format!("{about}{note}"))
    };
    let mut lines: Vec<_> =
        loads::all()?.iter().map(|spec| line(spec.name, spec.about, when(spec))).collect();
    lines.extend(PARTS.iter().map(|part| line(part.name, part.about, part.when)));
    lines.extend(routers::loads().iter().map(|spec| {
        let about = format!("routers with four servers: {}", spec.about);
        line(spec.name, &about, When::Named("; --routers"))
    }));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::{Parameters, Scale, Selection, described};
    use crate::bench::{delete_prefix, dump, fairness, memory, takeover};

    fn named(only: &[&str]) -> Selection {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        Selection::named(&only, Scale::Full).unwrap()
    }

    fn parts(only: &[&str]) -> Vec<&'static str> {
        named(only).parts.iter().map(|part| part.name).collect()
    }

    #[test]
    fn parts_are_found_by_name_and_unknown_ones_refused() {
        let some = named(&["set32", "get1"]);
        assert_eq!(some.loads.iter().map(|spec| spec.name).collect::<Vec<_>>(), ["get1", "set32"]);
        assert!(some.parts.is_empty() && some.routed.is_empty());
        let error = Selection::named(&["get33".to_owned()], Scale::Full).unwrap_err().to_string();
        assert!(error.contains("get32") && error.contains("memory-sizes"), "{error}");
    }

    #[test]
    fn everything_but_the_long_parts_is_the_default() {
        let usual = [
            "open",
            "memory",
            "memory-stamped",
            "items",
            "idle-connections",
            "idle-connections-tls",
            "metadump",
        ];
        assert_eq!(parts(&[]), usual);
        let long = ["memory-sizes", "fairness", "misses", "delete-prefix", "takeover", "instructions"];
        assert_eq!(parts(&long), long);
        let all = named(&[]);
        let Parameters { engines, against, traces, .. } = all.parameters;
        assert_eq!((engines.len(), against, traces), (4, None, None));
        assert!(all.loads.iter().all(|spec| !spec.name.ends_with("-few")));
        assert_eq!(named(&["set32-few"]).loads[0].data.keys, 10_000);
        assert_eq!(described().unwrap().len(), all.loads.len() + 21);
    }

    #[test]
    fn a_short_bench_has_a_part_of_the_keys() {
        let keys = |scale| {
            let dumped = dump::Case::new(scale).unwrap().load;
            assert_eq!(dumped.pipeline, 32);
            let deleted = delete_prefix::Case::new(scale).keys;
            let taken_over = takeover::Case::new(scale).keys;
            [dumped.data.keys, deleted, taken_over, fairness::keys(scale), memory::keys(scale)]
        };
        assert_eq!(keys(Scale::Full), [10_000_000, 10_000_000, 3_400_000, 500_000, 25_000_000]);
        assert_eq!(keys(Scale::Quick), [625_000, 625_000, 212_500, 31_250, 1_562_500]);
    }

    #[test]
    fn routers_are_measured_only_when_they_are_named() {
        assert!(named(&[]).routed.is_empty());
        let some = named(&["router-mget100", "router-idle"]);
        assert!(some.loads.is_empty());
        assert_eq!(some.routed.iter().map(|spec| spec.name).collect::<Vec<_>>(), ["router-mget100"]);
        assert_eq!(parts(&["router-mget100", "router-idle"]), ["router-idle"]);
        assert_eq!(parts(&["router-latency"]), ["router-latency"]);
    }
}

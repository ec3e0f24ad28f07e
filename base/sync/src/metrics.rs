//! Tables of metrics. A row gives a metric its name, unit and meaning; enums, structs, the output of `stats` and the
//! saved form of counters follow from it.

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of items, requests or events.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Microseconds.
    Microseconds,
    /// 0 or 1.
    Flag,
    /// No number.
    Text,
}

/// How a metric changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, from the start or the last `stats reset`.
    Counter,
    /// It is a current value.
    Gauge,
}

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in `stats`.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// How it changes.
    pub kind: Kind,
    /// Its meaning, as one sentence.
    pub meaning: &'static str,
    /// What it is called in OpenMetrics, `name{label=value,…}`, where that is not made of its name.
    pub exported: Option<&'static str>,
}

/// Declares counters: an enum with a variant for each row `Variant = "name", Unit, "meaning";`, or `"meaning" as "name in OpenMetrics";`
#[macro_export]
macro_rules! counters {
    (
        $(#[$doc:meta])*
        $vis:vis enum $Counter:ident {
            $($Variant:ident = $name:literal, $Unit:ident, $meaning:literal $(as $exported:literal)?;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $Counter {
            $(#[doc = $meaning] $Variant,)*
        }

        impl $Counter {
            /// All counters, in the order of their rows.
            $vis const ALL: [Self; Self::COUNT] = [$(Self::$Variant),*];
            /// How many there are.
            $vis const COUNT: usize = Self::ROWS.len();
            /// Their rows.
            $vis const ROWS: &'static [$crate::metrics::Metric] = &[$($crate::metrics::Metric {
                name: $name,
                unit: $crate::metrics::Unit::$Unit,
                kind: $crate::metrics::Kind::Counter,
                meaning: $meaning,
                exported: $crate::exported!($($exported)?),
            }),*];

            /// Its name in `stats`, and in the state that lasts.
            $vis fn name(self) -> &'static str {
                Self::ROWS[self as usize].name
            }

            /// The counter with this name.
            $vis fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|counter| counter.name() == name)
            }
        }
    };
}

/// A name in OpenMetrics, if a row has one.
#[macro_export]
macro_rules! exported {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

/// Declares a snapshot: a struct with a field for each row. Rows of `counted` are `Variant / field = "name", Unit, "meaning";` and are also an enum, as of
/// [`counters!`](macro@crate::counters); rows of `counters` and `gauges` are `field: type = "name", Unit, "meaning";`.
#[macro_export]
macro_rules! snapshot {
    (
        $(#[$enum_doc:meta])*
        $vis:vis enum $Counter:ident;
        $(#[$struct_doc:meta])*
        $struct_vis:vis struct $Snapshot:ident;
        counted { $($Variant:ident / $counted:ident = $counted_name:literal, $CountedUnit:ident, $counted_meaning:literal $(as $counted_exported:literal)?;)* }
        counters { $($counter:ident: $counter_type:ty = $counter_name:literal, $CounterUnit:ident, $counter_meaning:literal $(as $counter_exported:literal)?;)* }
        gauges { $($gauge:ident: $gauge_type:ty = $gauge_name:literal, $GaugeUnit:ident, $gauge_meaning:literal $(as $gauge_exported:literal)?;)* }
        besides { $($(#[$field_doc:meta])* $field:ident: $field_type:ty;)* }
    ) => {
        $crate::counters! {
            $(#[$enum_doc])*
            $vis enum $Counter {
                $($Variant = $counted_name, $CountedUnit, $counted_meaning $(as $counted_exported)?;)*
            }
        }

        $(#[$struct_doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $struct_vis struct $Snapshot {
            $(#[doc = $counted_meaning] pub $counted: u64,)*
            $(#[doc = $counter_meaning] pub $counter: $counter_type,)*
            $(#[doc = $gauge_meaning] pub $gauge: $gauge_type,)*
            $($(#[$field_doc])* pub $field: $field_type,)*
        }

        impl $Snapshot {
            /// A snapshot of the counters; all other fields are zero.
            #[allow(clippy::needless_update, reason = "a table may have rows of one kind only")]
            $struct_vis fn counted(value: impl Fn($Counter) -> u64) -> Self {
                $Snapshot { $($counted: value($Counter::$Variant),)* ..Self::default() }
            }

            /// The rows, each with its value.
            $struct_vis fn rows(&self) -> impl Iterator<Item = (&'static $crate::metrics::Metric, u64)> + use<> {
                let values = [
                    $(self.$counted,)*
                    $(u64::from(self.$counter),)*
                    $(u64::from(self.$gauge),)*
                ];
                Self::ROWS.iter().zip(values)
            }

            /// The rows of the table.
            $struct_vis const ROWS: &'static [$crate::metrics::Metric] = {
                use $crate::metrics::{Kind, Metric, Unit};
                &[
                    $(Metric {
                        name: $counted_name,
                        unit: Unit::$CountedUnit,
                        kind: Kind::Counter,
                        meaning: $counted_meaning,
                        exported: $crate::exported!($($counted_exported)?),
                    },)*
                    $(Metric {
                        name: $counter_name,
                        unit: Unit::$CounterUnit,
                        kind: Kind::Counter,
                        meaning: $counter_meaning,
                        exported: $crate::exported!($($counter_exported)?),
                    },)*
                    $(Metric {
                        name: $gauge_name,
                        unit: Unit::$GaugeUnit,
                        kind: Kind::Gauge,
                        meaning: $gauge_meaning,
                        exported: $crate::exported!($($gauge_exported)?),
                    },)*
                ]
            };
        }
    };
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::{Kind, Unit};

    snapshot! {
        /// Counters.
        enum Counter;
        /// The snapshot.
        struct Snapshot;
        counted {
            Hits / hits = "get_hits", Count, "Keys found." as "reads_total{status=hit}";
        }
        counters {
            runs: u64 = "crawls", Count, "Runs of the crawler.";
        }
        gauges {
            running: bool = "crawling", Flag, "Whether the crawler runs.";
        }
        besides {
            /// Parts.
            parts: Vec<u8>;
        }
    }

    #[test]
    fn a_row_is_a_variant_a_field_and_a_line() {
        let snapshot = Snapshot { runs: 2, running: true, parts: vec![1], ..Snapshot::counted(|_| 7) };
        let lines: Vec<_> = snapshot.rows().map(|(row, value)| (row.name, row.kind, value)).collect();
        let expected =
            [("get_hits", Kind::Counter, 7), ("crawls", Kind::Counter, 2), ("crawling", Kind::Gauge, 1)];
        assert_eq!(lines, expected);
        assert_eq!((Counter::named("get_hits"), Counter::named("crawls")), (Some(Counter::Hits), None));
        assert_eq!((Counter::COUNT, Snapshot::ROWS[2].unit), (1, Unit::Flag));
        assert_eq!(Snapshot::ROWS[0].exported, Some("reads_total{status=hit}"));
        assert_eq!(Snapshot::ROWS[1].exported, None);
        assert_eq!(snapshot.parts, [1]);
    }
}

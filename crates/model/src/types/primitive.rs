//! Primitive types and their parameters, with the names of "Primitive Types" in the table
//! specification.

use std::fmt;

use super::super::members::brief;
use super::super::refusal::Refusal;

/// The default coordinate reference system of `geometry` and `geography`.
const DEFAULT_CRS: &str = "OGC:CRS84";

/// A type without fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrimitiveType {
    /// True or false.
    Boolean,
    /// 32-bit signed integer.
    Int,
    /// 64-bit signed integer.
    Long,
    /// 32-bit IEEE 754.
    Float,
    /// 64-bit IEEE 754.
    Double,
    /// Fixed-point decimal.
    Decimal {
        /// Total number of digits, at most 38.
        precision: u32,
        /// Number of digits after the point.
        scale: u32,
    },
    /// Calendar date.
    Date,
    /// Time of day, microseconds.
    Time,
    /// Timestamp without zone, microseconds.
    Timestamp,
    /// Timestamp in UTC, microseconds.
    Timestamptz,
    /// Timestamp without zone, nanoseconds (v3).
    TimestampNs,
    /// Timestamp in UTC, nanoseconds (v3).
    TimestamptzNs,
    /// UTF-8 text.
    String,
    /// UUID.
    Uuid,
    /// Exactly this many bytes.
    Fixed(u32),
    /// Any bytes.
    Binary,
    /// Always null (v3).
    Unknown,
    /// Planar geometry (v3).
    Geometry {
        /// Coordinate reference system. `None` means `OGC:CRS84`.
        crs: Option<String>,
    },
    /// Ellipsoidal geometry (v3).
    Geography {
        /// Coordinate reference system. `None` means `OGC:CRS84`.
        crs: Option<String>,
        /// Interpolation of edges between points. `None` means spherical.
        algorithm: Option<EdgeAlgorithm>,
    },
}

/// The interpolation of an edge between two points of a geography.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeAlgorithm {
    /// Great circles.
    Spherical,
    /// Vincenty's formulae.
    Vincenty,
    /// Thomas's method.
    Thomas,
    /// Andoyer's formulae.
    Andoyer,
    /// Karney's algorithm.
    Karney,
}

impl PrimitiveType {
    /// Parses a type string. Ignores case, like the reference implementation.
    pub(crate) fn from_name(text: &str) -> Result<Self, Refusal> {
        let lower = text.to_ascii_lowercase();
        let simple = match lower.as_str() {
            "boolean" => Self::Boolean,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "date" => Self::Date,
            "time" => Self::Time,
            "timestamp" => Self::Timestamp,
            "timestamptz" => Self::Timestamptz,
            "timestamp_ns" => Self::TimestampNs,
            "timestamptz_ns" => Self::TimestamptzNs,
            "string" => Self::String,
            "uuid" => Self::Uuid,
            "binary" => Self::Binary,
            "unknown" => Self::Unknown,
            _ => return Self::from_parameters(text, &lower),
        };
        Ok(simple)
    }

    fn from_parameters(text: &str, lower: &str) -> Result<Self, Refusal> {
        if let Some(parameters) = geo_parameters(text, "geometry") {
            return Ok(Self::Geometry { crs: parse_crs(parameters.text())? });
        }
        if let Some(parameters) = geo_parameters(text, "geography") {
            let parameters = parameters.text();
            let (crs, algorithm) = match parameters.and_then(|inner| inner.split_once(',')) {
                Some((crs, algorithm)) => (Some(crs), Some(EdgeAlgorithm::parse(algorithm)?)),
                None => (parameters, None),
            };
            return Ok(Self::Geography { crs: parse_crs(crs)?, algorithm });
        }
        let fixed = between(lower, "fixed[", "]").and_then(parse_digits);
        if let Some(length) = fixed {
            return Ok(Self::Fixed(length));
        }
        let decimal = between(lower, "decimal(", ")").and_then(|inner| inner.split_once(','));
        let decimal =
            decimal.and_then(|(first, second)| parse_digits(first).zip(parse_digits(second)));
        match decimal {
            Some((precision, _)) if precision > 38 => Err(Refusal::invalid(format!(
                "Decimals with precision larger than 38 are not supported: {precision}"
            ))),
            Some((precision, scale)) => Ok(Self::Decimal { precision, scale }),
            None => Err(Refusal::invalid(format!(
                "Cannot parse type string to primitive: {}",
                brief(text)
            ))),
        }
    }
}

impl EdgeAlgorithm {
    fn parse(text: &str) -> Result<Self, Refusal> {
        match text.trim().to_ascii_lowercase().as_str() {
            "spherical" => Ok(Self::Spherical),
            "vincenty" => Ok(Self::Vincenty),
            "thomas" => Ok(Self::Thomas),
            "andoyer" => Ok(Self::Andoyer),
            "karney" => Ok(Self::Karney),
            _ => Err(Refusal::invalid(format!(
                "Invalid edge interpolation algorithm: {}",
                brief(text.trim())
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Spherical => "spherical",
            Self::Vincenty => "vincenty",
            Self::Thomas => "thomas",
            Self::Andoyer => "andoyer",
            Self::Karney => "karney",
        }
    }
}

/// The parameters of a geospatial type.
enum GeoParameters<'a> {
    /// The type string has no parameters: `geometry`.
    Absent,
    /// The parameters between the parentheses: `geometry(srid:3857)`.
    Text(&'a str),
}

impl<'a> GeoParameters<'a> {
    fn text(self) -> Option<&'a str> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text),
        }
    }
}

/// Returns the parameters of the type with this name. `None` if `text` is another type.
fn geo_parameters<'a>(text: &'a str, name: &str) -> Option<GeoParameters<'a>> {
    let (head, rest) = text.split_at_checked(name.len())?;
    if !head.eq_ignore_ascii_case(name) {
        return None;
    }
    let rest = rest.trim_start();
    if rest.is_empty() {
        return Some(GeoParameters::Absent);
    }
    between(rest, "(", ")").map(GeoParameters::Text)
}

fn parse_crs(crs: Option<&str>) -> Result<Option<String>, Refusal> {
    match crs.map(str::trim) {
        None => Ok(None),
        Some("") => Err(Refusal::invalid("Invalid CRS: (empty string)")),
        Some(crs) if crs.eq_ignore_ascii_case(DEFAULT_CRS) => Ok(None),
        // A parenthesis or comma cannot be escaped in a type string, so the string could not be
        // parsed again.
        Some(crs) if crs.contains(['(', ')', ',']) => {
            Err(Refusal::invalid(format!("Invalid CRS: {}", brief(crs))))
        }
        Some(crs) => Ok(Some(crs.to_owned())),
    }
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

/// Parses digits between optional blanks, like the patterns of the reference implementation. The
/// maximum is `i32::MAX`.
fn parse_digits(text: &str) -> Option<u32> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok())
}

impl fmt::Display for PrimitiveType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal { precision, scale } => {
                return write!(f, "decimal({precision}, {scale})");
            }
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Timestamptz => "timestamptz",
            Self::TimestampNs => "timestamp_ns",
            Self::TimestamptzNs => "timestamptz_ns",
            Self::String => "string",
            Self::Uuid => "uuid",
            Self::Fixed(length) => return write!(f, "fixed[{length}]"),
            Self::Binary => "binary",
            Self::Unknown => "unknown",
            Self::Geometry { crs: None } => "geometry",
            Self::Geometry { crs: Some(crs) } => return write!(f, "geometry({crs})"),
            Self::Geography { crs: None, algorithm: None } => "geography",
            Self::Geography { crs: Some(crs), algorithm: None } => {
                return write!(f, "geography({crs})");
            }
            Self::Geography { crs, algorithm: Some(algorithm) } => {
                let crs = crs.as_deref().unwrap_or(DEFAULT_CRS);
                return write!(f, "geography({crs}, {})", algorithm.name());
            }
        };
        f.write_str(name)
    }
}

//! Enums of responses.

/// Defines an enum of strings in responses. A string that only a newer server knows becomes
/// `Other`.
macro_rules! string_enum {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $string:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of])* $variant,)+
            /// A value that only newer servers know.
            Other(String),
        }

        impl $name {
            /// Returns the string that represents the value in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $string,)+
                    Self::Other(other) => other,
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let string = String::deserialize(from)?;
                Ok(match string.as_str() {
                    $($string => Self::$variant,)+
                    _ => Self::Other(string),
                })
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::Type::String)
                    .enum_values(Some([$($string),+]))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

pub(crate) use string_enum;

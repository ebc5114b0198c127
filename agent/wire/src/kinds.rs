//! The macro that declares kinds of frames: a struct for each kind, an enum of them, and the table
//! of the ways on which each may be sent.

/// Declares an enum of frames: `"kind" Struct [ways] {fields}`. With `before`, a key that is not
/// accepted yet may send the kind too.
macro_rules! kinds {
    (
        $(#[$about:meta])*
        enum $all:ident;
        $(
            $(#[$doc:meta])*
            $name:literal $kind:ident [$($way:ident)*] $($before:ident)? {
                $( $(#[$field_doc:meta])* $field:ident: $type:ty, )*
            }
        )*
    ) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq)]
            pub struct $kind {
                $( $(#[$field_doc])* pub $field: $type, )*
            }

            impl $kind {
                fn read(map: &mut ::value::Map) -> Result<Self, $crate::Error> {
                    let _ = &map;
                    Ok(Self { $( $field: $crate::fields::take(map, $name, stringify!($field))?, )* })
                }

                fn fields(&self) -> Vec<(&'static str, ::value::Value)> {
                    #[allow(unused_mut, reason = "a kind may have no fields")]
                    let mut fields = Vec::new();
                    $( $crate::fields::put(&mut fields, stringify!($field), $crate::fields::Field::written(&self.$field)); )*
                    fields
                }
            }

            /// Shows the kind only, because the fields may contain a secret.
            impl ::std::fmt::Debug for $kind {
                fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.write_str($name)
                }
            }

            impl From<$kind> for $all {
                fn from(frame: $kind) -> Self {
                    Self::$kind(frame)
                }
            }

            impl From<$kind> for $crate::Frame {
                fn from(frame: $kind) -> Self {
                    Self::$all(frame.into())
                }
            }
        )*

        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $all {
            $( $(#[$doc])* $kind($kind), )*
        }

        impl $all {
            /// All kinds, with the ways on which each may be sent.
            pub const RULES: &[$crate::Rule] = &[
                $( $crate::Rule {
                    kind: $name,
                    ways: &[$( $crate::Way::$way, )*],
                    before: $crate::kinds::kinds!(@before $($before)?),
                }, )*
            ];

            /// Returns the name of the frame's kind.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $( Self::$kind(_) => $name, )*
                }
            }

            pub(crate) fn fields(&self) -> Vec<(&'static str, ::value::Value)> {
                match self {
                    $( Self::$kind(frame) => frame.fields(), )*
                }
            }

            /// Reads a frame of this kind; `None` if the kind belongs to another enum.
            pub(crate) fn read(kind: &str, map: &mut ::value::Map) -> Result<Option<Self>, $crate::Error> {
                Ok(Some(match kind {
                    $( $name => Self::$kind($kind::read(map)?), )*
                    _ => return Ok(None),
                }))
            }
        }

        impl From<$all> for $crate::Frame {
            fn from(frame: $all) -> Self {
                Self::$all(frame)
            }
        }
    };
    (@before before) => { true };
    (@before) => { false };
}

pub(crate) use kinds;

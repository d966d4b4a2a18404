//! The name of what is not trained: paths of a frozen model begin with it.

/// The field of [`LanguageCarried`] whose leaves no step changes and no checkpoint has.
pub(crate) const FROZEN: &str = "frozen";

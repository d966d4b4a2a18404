//! Values of options: read from text, shown as the same text.

/// A type of option.
pub trait Setting: Sized + Clone + PartialEq {
    /// Reads a value; the error says what is taken instead.
    fn read(text: &str) -> Result<Self, String>;

    /// The value as it would be given.
    fn show(&self) -> String;
}

impl Setting for bool {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "true" | "on" | "yes" | "1" => Ok(true),
            "false" | "off" | "no" | "0" => Ok(false),
            _ => Err("true or false".into()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for usize {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "a whole number".into())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_string())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

/// The word for an option without a value.
const NONE: &str = "none";

impl<T: Setting> Setting for Option<T> {
    fn read(text: &str) -> Result<Self, String> {
        if text == NONE {
            Ok(None)
        } else {
            T::read(text).map(Some).map_err(|expected| format!("{expected}, or {NONE}"))
        }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| NONE.to_string(), Setting::show)
    }
}

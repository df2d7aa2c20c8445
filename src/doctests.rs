//! Compiles and runs the Rust blocks of the README and of `docs/` as doc tests.

macro_rules! pages {
    ($($page:ident = $path:literal,)*) => {
        $(#[doc = include_str!(concat!("../", $path))]
        struct $page;)*
    };
}

pages! {
    Readme = "README.md",
    Acquisition = "docs/acquisition.md",
    Architecture = "docs/architecture.md",
    Benchmarks = "docs/benchmarks.md",
    Choosing = "docs/choosing.md",
    ComingFrom = "docs/coming-from.md",
    Connection = "docs/connection.md",
    Fencing = "docs/fencing.md",
    Glossary = "docs/glossary.md",
    Guarantees = "docs/guarantees.md",
    Interop = "docs/interop.md",
    ManagedServices = "docs/managed-services.md",
    Networks = "docs/networks.md",
    Operations = "docs/operations.md",
    Services = "docs/services.md",
    Testing = "docs/testing.md",
    WhatTheCompilerCannotSee = "docs/what-the-compiler-cannot-see.md",
}

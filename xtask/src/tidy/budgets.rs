//! Sizes: a file of more than 800 lines, a function of more than 100, is refused.

use super::Finding;
use super::source::Source;

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 100;

/// Files of any kind, functions outside tests.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        if lines > FILE_LINES {
            let what = format!("{lines} lines, and {FILE_LINES} is the most: split it by idea");
            found.push(Finding::new("budget", source.path, 0, what));
        }
        for function in source.functions() {
            if function.lines > FUNCTION_LINES && !source.is_test(function.line) {
                let what = format!(
                    "`{}` has {} lines, and {FUNCTION_LINES} is the most",
                    function.name, function.lines
                );
                found.push(Finding::new("budget", source.path, function.line, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::File;
    use crate::tidy::source::sources;

    fn count(path: &str, text: &str) -> usize {
        check(&sources(&[File::new(path, text)])).len()
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "x();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_of_800_lines_passes_and_801_is_refused() {
        assert_eq!(count("a/src/x.rs", &"//\n".repeat(800)), 0);
        assert_eq!(count("a/src/x.rs", &"//\n".repeat(801)), 1);
        assert_eq!(count("a/tests/it.rs", &"//\n".repeat(801)), 1);
    }

    #[test]
    fn a_function_of_100_lines_passes_and_101_is_refused() {
        assert_eq!(count("a/src/x.rs", &function(100)), 0);
        assert_eq!(count("a/src/x.rs", &function(101)), 1);
    }

    #[test]
    fn long_test_functions_pass() {
        assert_eq!(count("a/tests/it.rs", &function(200)), 0);
        let inline = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(200));
        assert_eq!(count("a/src/x.rs", &inline), 0);
    }
}

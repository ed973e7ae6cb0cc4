//! What is wrong with a plan beyond its form: tasks that only read or think, criteria that cannot be measured, files that tasks
//! share without an order between them. Each rule is small and may be wrong: a model that insists is believed.

use std::collections::BTreeSet;

use crate::plan::{TaskRef, TaskSpec};
use crate::wire::has_word;

/// First words of tasks that make nothing, if no file is to come of them; in Chinese, beginnings.
const ONLY_READS: &str = "read analyse analyze review think design understand study explore investigate examine inspect \
    identify consider research learn familiarize";
const ONLY_READS_ZH: &str = "阅读 分析 审查 思考 设计 理解 了解 研究 调查 查看";

/// Words that measure nothing. A criterion of no others says that the task is done.
const EMPTY_WORDS: &str = "a all and as be been code complete completed correct correctly done everything expected fine \
    finished good has implemented is it must ok properly ready should successful successfully task the this well will \
    work working works";
const EMPTY_ZH: &str = "任务 功能 代码 一切 可以 能够 正常 正确 工作 运行 完成 成功 已 了";

/// The most lines of a block that may be an example of a format.
const EXAMPLE: usize = 4;

/// Returns what is wrong with the tasks of a plan, a line for each field.
pub(super) fn problems(tasks: &[TaskSpec]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, task) in (1..).zip(tasks) {
        let mut problem = |field: &str, what: &str| {
            found.push(format!("task {number}, `{field}`: {what}"));
        };
        let name = task.name.to_lowercase();
        let first = name.split(|letter: char| !letter.is_alphanumeric()).next();
        let reads = has_word(ONLY_READS, first.unwrap_or_default())
            || ONLY_READS_ZH.split(' ').any(|word| name.starts_with(word));
        if reads && task.produces.is_empty() {
            let way = "put it into the task that needs it, or say in `produces` what it writes";
            problem("name", &format!("it makes nothing: {way}"));
        }
        if holds_code(&task.description) {
            problem("description", "it holds code: say what the code must do");
        }
        let criteria = task.criteria.list();
        if let Some(vague) = criteria.iter().find(|one| says_nothing(&one.text)) {
            let way = "name a file with what is in it, or a command with what it shows";
            let what = format!("\"{}\" cannot be measured: {way}", vague.text);
            problem("expected_output", &what);
        }
    }
    found.extend(unordered(tasks));
    found
}

/// Returns whether a text has a fenced block of more lines than an example of a format needs.
fn holds_code(text: &str) -> bool {
    let mut blocks = text.split("```").skip(1).step_by(2);
    blocks.any(|block| block.trim_end().lines().count() > 1 + EXAMPLE)
}

fn says_nothing(text: &str) -> bool {
    // A file or a number, of which nothing is said.
    if text.is_ascii() && text.split_whitespace().count() == 1 {
        return true;
    }
    let zh = EMPTY_ZH.split(' ');
    let text = zh.fold(text.to_lowercase(), |text, word| text.replace(word, " "));
    let mut words = text.split(|letter: char| !letter.is_alphanumeric());
    words.all(|word| word.is_empty() || has_word(EMPTY_WORDS, word))
}

/// Finds tasks that name a file which another one produces, where neither waits for the other.
fn unordered(tasks: &[TaskSpec]) -> Vec<String> {
    let before: Vec<BTreeSet<usize>> = (0..tasks.len()).map(|task| needed(tasks, task)).collect();
    let pairs = (0..tasks.len()).flat_map(|maker| (0..tasks.len()).map(move |user| (maker, user)));
    let free = pairs.filter(|(maker, user)| {
        maker != user && !before[*user].contains(maker) && !before[*maker].contains(user)
    });
    let found = free.filter_map(|(maker, user)| {
        let other = &tasks[user];
        let path = tasks[maker].produces.iter().find(|path| {
            // Where both produce it, it is said once.
            (other.produces.contains(path) && maker < user) || names(&other.description, path)
        })?;
        let (maker, user) = (maker + 1, user + 1);
        let way = "one of them has to depend on the other";
        Some(format!(
            "task {user}, `depends_on`: it names `{path}`, which task {maker} produces: {way}"
        ))
    });
    found.collect()
}

/// Returns the tasks that a task waits for, directly or not.
fn needed(tasks: &[TaskSpec], task: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![task];
    while let Some(task) = open.pop() {
        for on in &tasks[task].dependencies {
            if let TaskRef::New(on) = on
                && found.insert(*on)
            {
                open.push(*on);
            }
        }
    }
    found
}

/// Returns whether a text names a file, and not only one whose name is longer.
fn names(text: &str, path: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_-/.".contains(c));
    words.any(|word| word.trim_start_matches("./").trim_end_matches('.') == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Criteria;

    fn task(name: &str, description: &str, produces: &[&str], after: &[usize]) -> TaskSpec {
        TaskSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            criteria: Criteria::plain("`main.py` prints 3"),
            produces: produces.iter().map(|path| (*path).to_owned()).collect(),
            dependencies: after.iter().map(|on| TaskRef::New(*on)).collect(),
            ..TaskSpec::default()
        }
    }

    #[test]
    fn vague_criteria_are_found() {
        for (text, vague) in [
            ("It works.", true),
            ("The task is done", true),
            ("Everything works as expected!", true),
            ("任务已完成。", true),
            ("代码可以正常运行", true),
            ("dates.py", true),
            ("`src/main.py`", true),
            ("1", true),
            ("First is done.", false),
            ("主程序打印3", false),
            ("`main.py` prints 3", false),
            ("运行 main.py 显示 3", false),
            ("pytest passes", false),
        ] {
            assert_eq!(says_nothing(text), vague, "{text}");
        }
    }

    #[test]
    fn tasks_without_result_are_found() {
        for (name, produces, expected) in [
            ("Read the code", &[][..], 1),
            ("Design: the API", &[], 1),
            ("分析现有代码", &[], 1),
            ("Design the API", &["api.md"], 0),
            ("Reader for lines", &[], 0),
            ("Write the parser", &[], 0),
        ] {
            let found = problems(&[task(name, "Do it.", produces, &[])]);
            assert_eq!(found.len(), expected, "{name}: {found:?}");
        }
    }

    #[test]
    fn code_in_a_text_is_found() {
        for (description, expected) in [
            ("Write `add(a, b)`.", 0),
            ("It prints:\n```json\n{\n  \"a\": 1\n}\n```\nand ends.", 0),
            (
                "Write it:\n```python\nimport sys\n\ndef f():\n    g()\n\nf()\n```\n",
                1,
            ),
            ("Cut off:\n```\na\nb\nc\nd\ne", 1),
        ] {
            let found = problems(&[task("Write", description, &[], &[])]);
            assert_eq!(found.len(), expected, "{description}: {found:?}");
        }
    }

    #[test]
    fn shared_file_needs_an_order() {
        let maker = task("Write", "Write it.", &["src/main.py"], &[]);
        for (description, produces, after, expected) in [
            ("Test `src/main.py`.", &[][..], &[][..], 1),
            ("Test src/main.py", &[], &[], 1),
            ("把 ./src/main.py 写完", &[], &[], 1),
            ("测试src/main.py。", &[], &[], 1),
            ("Test it.", &["src/main.py"], &[], 1),
            ("Test `src/main.py`.", &[], &[0], 0),
            ("Test `src/main.pyc` and `old/src/main.py`.", &[], &[], 0),
            ("Test src/main.py.bak", &[], &[], 0),
        ] {
            let user = task("Test", description, produces, after);
            let found = problems(&[maker.clone(), user]);
            assert_eq!(found.len(), expected, "{description}: {found:?}");
        }
        let waits = task("Write", "Write it.", &["src/main.py"], &[1]);
        let needed = task("Prepare", "Prepare for src/main.py.", &[], &[]);
        assert_eq!(problems(&[waits, needed]), [""; 0]);
    }
}

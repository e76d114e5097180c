//! The judges of siblings, of ownership and of recorded files are judged: right histories pass, and for
//! each rule there is a history that breaks that rule alone.

use tanist::history::finding::Finding;
use tanist::history::record::{Kind, Line, RecordError, Recording};
use tanist::history::{linear, ownership, siblings};

use siblings::{Action, Came, Operation};

fn put(asked: u64, names: &[u8], to: u8, came: Came<u8>) -> Operation<u8> {
    let answered = (came != Came::Unknown).then_some(asked + 1);
    Operation { asked, answered, action: Action::Put { names: names.to_vec(), to, came } }
}

fn applied(listed: &[u8]) -> Came<u8> {
    Came::Applied(Some(listed.to_vec()))
}

fn shown(asked: u64, action: Action<u8>) -> Operation<u8> {
    Operation { asked, answered: Some(asked + 1), action }
}

/// Two writers that read the same, a third that saw both, and one without an answer.
fn right() -> Vec<Operation<u8>> {
    vec![
        put(0, &[], 1, applied(&[1])),
        put(10, &[1], 2, applied(&[2])),
        put(10, &[1], 3, applied(&[2, 3])),
        shown(20, Action::Read(vec![2, 3])),
        put(30, &[2, 3], 4, applied(&[4])),
        put(30, &[2, 3], 5, Came::Unknown),
        put(30, &[1], 6, Came::Refused),
        shown(40, Action::Final(vec![4])),
        shown(40, Action::Final(vec![4])),
    ]
}

#[test]
fn siblings_that_keep_their_promises_pass() {
    assert_eq!(siblings::judge(&right()), Ok(siblings::Verdict { conflicts: 1 }));
    // What nobody knows of may be there.
    let mut history = right();
    for last in &mut history[7..] {
        last.action = Action::Final(vec![5, 4]);
    }
    assert!(siblings::judge(&history).is_ok());
    assert!(siblings::judge::<u8>(&[]).is_ok());
}

#[test]
fn each_rule_of_siblings_is_noticed() {
    type Change = fn(&mut Vec<Operation<u8>>);
    let cases: [(&str, &[usize], Change); 9] = [
        (siblings::UNWRITTEN, &[3], |history| history[3].action = Action::Read(vec![2, 3, 9])),
        (siblings::REFUSED_AND_SEEN, &[6, 7], |history| history[7].action = Action::Final(vec![4, 6])),
        (siblings::TWO_MAKERS, &[4, 5], |history| {
            history[5].action = Action::Put { names: vec![2], to: 4, came: Came::Unknown };
        }),
        (siblings::LOST, &[4, 7], |history| {
            history.truncate(8);
            history[7].action = Action::Final(vec![5]);
        }),
        (siblings::DISAGREE, &[7, 8], |history| history[8].action = Action::Final(vec![4, 5])),
        (siblings::SUPERSEDED, &[1, 4, 7], |history| history[7].action = Action::Final(vec![4, 2])),
        (siblings::STALE, &[2, 3], |history| history[3].action = Action::Read(vec![2])),
        (siblings::STALE, &[2, 3], |history| history[3].action = Action::Read(vec![])),
        (siblings::UNTOLD, &[1, 2], |history| {
            history[2].action = Action::Put { names: vec![1], to: 3, came: applied(&[3]) };
        }),
    ];
    for (rule, operations, change) in cases {
        let mut history = right();
        change(&mut history);
        let finding = siblings::judge(&history).unwrap_err();
        assert_eq!((finding.rule, &finding.operations[..]), (rule, operations));
    }
}

#[test]
fn each_rule_of_ownership_is_noticed() {
    use ownership::{Action, Operation};
    let won = |asked, answered, term, tenure| Operation {
        asked,
        answered: Some(answered),
        action: Action::Won { term, tenure },
    };
    let held = |asked, answered, term| Operation { asked, answered, action: Action::Held { term } };
    let right = [
        won(0, 9, 1, 'a'),
        held(9, Some(20), 1),
        won(0, 25, 2, 'b'),
        won(3, 26, 2, 'b'),
        held(25, Some(40), 2),
        held(20, Some(40), 2),
        held(41, None, 3),
    ];
    assert_eq!(ownership::judge(&right), Ok(()));
    let wrong = |extra, rule, operations: &[usize]| {
        let history: Vec<_> = right.iter().cloned().chain([extra]).collect();
        let expected = Finding { rule, operations: operations.to_vec() };
        assert_eq!(ownership::judge(&history), Err(expected));
    };
    wrong(won(0, 99, 1, 'c'), ownership::TWO_TENURES, &[0, 7]);
    wrong(won(27, 99, 1, 'a'), ownership::TERM_FELL, &[3, 7]);
    wrong(held(19, Some(22), 2), ownership::TWO_OWNERS, &[1, 7]);
    wrong(held(0, Some(99), 1), ownership::TWO_OWNERS, &[7, 5]);
}

#[test]
fn late_writes_are_noticed() {
    use linear::{Action, Came, Operation};
    let operation = |at, action| Operation { asked: at, answered: Some(at + 1), action };
    let swap = |at, from, to, term| (operation(at, Action::Swap { from, to, came: Came::Applied }), term);
    let read = |at, saw, term| (operation(at, Action::Read(saw)), term);
    let judge = |history: &[ownership::Fenced<char>]| {
        let order: Vec<usize> = (0..history.len()).collect();
        ownership::judge_writes(history, &order)
    };
    let right =
        [swap(0, None, 'a', 1), swap(2, Some('a'), 'b', 1), read(4, Some('b'), 0), read(5, Some('b'), 2)];
    assert_eq!(judge(&right), Ok(()));
    let with = |last| [&right[..], &[last]].concat();
    assert_eq!(judge(&with(swap(6, Some('b'), 'c', 2))), Ok(()));
    let unsealed = Finding { rule: ownership::UNSEALED, operations: vec![3, 4] };
    assert_eq!(judge(&with(swap(6, Some('b'), 'c', 1))), Err(unsealed));
    let late = [swap(0, None, 'a', 2), swap(2, Some('a'), 'b', 0)];
    assert_eq!(judge(&late), Err(Finding { rule: ownership::LATE_WRITE, operations: vec![0, 1] }));
}

fn recording(lines: &[&str]) -> Result<Recording, RecordError> {
    let mut recording = Recording::default();
    for line in lines {
        recording.add(serde_json::from_str(line).unwrap())?;
    }
    Ok(recording)
}

const FIRST: &str = r#"{"type":"history","version":1}"#;

/// A file with everything in it.
const ALL: [&str; 23] = [
    FIRST,
    r#"{"type":"invoke","op":1,"time":0,"client":"c1","call":{"swap":{"register":"k","to":"a","term":1}}}"#,
    r#"{"type":"ok","op":1,"time":1}"#,
    r#"{"type":"invoke","op":2,"time":2,"client":"c1","call":{"swap":{"register":"k","from":"a"}}}"#,
    r#"{"type":"unknown","op":2,"to":"b"}"#,
    r#"{"type":"invoke","op":3,"time":3,"client":"c2","call":{"swap":{"register":"k","to":"c"}}}"#,
    r#"{"type":"fail","op":3,"time":4,"saw":["a"]}"#,
    r#"{"type":"invoke","op":4,"time":5,"client":"c2","call":{"get":{"register":"k","term":2}}}"#,
    r#"{"type":"ok","op":4,"time":6,"saw":["a"]}"#,
    r#"{"type":"invoke","op":5,"time":7,"client":"c2","call":{"get":{"register":"k"}}}"#,
    r#"{"type":"invoke","op":6,"time":7,"client":"c3","call":{"put":{"siblings":"k","names":[]}}}"#,
    r#"{"type":"ok","op":6,"time":8,"to":"p","saw":["p"]}"#,
    r#"{"type":"invoke","op":7,"time":9,"client":"c3","call":{"read":{"siblings":"k"}}}"#,
    r#"{"type":"ok","op":7,"time":10,"saw":["p"]}"#,
    r#"{"type":"invoke","op":8,"time":11,"client":"c3","call":{"final":{"siblings":"k","node":"n"}}}"#,
    r#"{"type":"ok","op":8,"time":12,"saw":["p"]}"#,
    r#"{"type":"invoke","op":9,"time":13,"client":"c4","call":{"campaign":{"resource":"r"}}}"#,
    r#"{"type":"ok","op":9,"time":14,"term":7,"tenure":"t"}"#,
    r#"{"type":"invoke","op":10,"time":14,"client":"c4","call":{"hold":{"resource":"r","term":7}}}"#,
    r#"{"type":"ok","op":10,"time":15}"#,
    r#"{"type":"invoke","op":11,"time":16,"client":"c5","call":{"campaign":{"resource":"r"}}}"#,
    r#"{"type":"fail","op":11,"time":17}"#,
    r#"{"type":"invoke","op":12,"time":18,"client":"c3","call":{"read":{"siblings":"k"}}}"#,
];

#[test]
fn a_recorded_file_is_judged_key_by_key() {
    let recorded = recording(&ALL).unwrap();
    let judged = recorded.judge().unwrap();
    let all: Vec<_> = judged.iter().map(|one| (one.kind, &one.name[..], one.counts, &one.finding)).collect();
    let expected = [
        (Kind::Register, "k", [2, 1, 2], &None),
        (Kind::Siblings, "k", [3, 0, 1], &None),
        (Kind::Resource, "r", [2, 1, 0], &None),
    ];
    assert_eq!(all, expected);

    // The sealing read of term 2 came before it: the write in doubt, of no owner, may not be seen now.
    let mut late = ALL.to_vec();
    late.push(r#"{"type":"ok","op":5,"time":20,"saw":["b"]}"#);
    let judged = recording(&late).unwrap().judge().unwrap();
    let finding = judged[0].finding.as_ref().unwrap();
    assert_eq!((finding.rule, &finding.operations[..]), (ownership::UNSEALED, &[3, 1][..]));
}

#[test]
fn a_line_that_cannot_be_is_an_error() {
    use RecordError::{Backwards, Lacks, NotAHistory, NotBegun, Twice};
    let get = r#"{"type":"invoke","op":1,"time":5,"client":"c","call":{"get":{"register":"k"}}}"#;
    let swap = r#"{"type":"invoke","op":1,"time":5,"client":"c","call":{"swap":{"register":"k"}}}"#;
    let win = r#"{"type":"invoke","op":1,"time":5,"client":"c","call":{"campaign":{"resource":"r"}}}"#;
    let lacks = |lacks| Lacks { op: 1, lacks };
    let cases: [(&[&str], RecordError); 11] = [
        (&[get], NotAHistory),
        (&[r#"{"type":"history","version":2}"#], NotAHistory),
        (&[FIRST, FIRST], NotAHistory),
        (&[FIRST, get, get], Twice(1)),
        (&[FIRST, get, r#"{"type":"unknown","op":1}"#, r#"{"type":"unknown","op":1}"#], Twice(1)),
        (&[FIRST, r#"{"type":"unknown","op":2}"#], NotBegun(2)),
        (&[FIRST, get, r#"{"type":"ok","op":1,"time":4,"saw":[]}"#], Backwards(1)),
        (&[FIRST, get, r#"{"type":"ok","op":1,"time":6}"#], lacks("it does not say what it saw")),
        (
            &[FIRST, get, r#"{"type":"ok","op":1,"time":6,"saw":["a","b"]}"#],
            lacks("a register has no siblings"),
        ),
        (
            &[FIRST, swap, r#"{"type":"fail","op":1,"time":6,"saw":["a","b"]}"#],
            lacks("a register has no siblings"),
        ),
        (&[FIRST, win, r#"{"type":"ok","op":1,"time":6}"#], lacks("it does not say which term was won")),
    ];
    for (lines, error) in cases {
        assert_eq!(recording(lines).map(|_| ()), Err(error), "{lines:?}");
    }
    let unnamed = recording(&[FIRST, swap]).unwrap().judge();
    assert_eq!(unnamed, Err(lacks("it may have been done, and does not say what it made")));
    for odd in [r#"{"type":"ok","op":1,"time":1,"seen":[]}"#, r#"{"type":"invoke","op":1,"time":1}"#] {
        assert!(serde_json::from_str::<Line>(odd).is_err(), "{odd}");
    }
}

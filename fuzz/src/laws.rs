//! What must hold of every line that is cut and parsed, whatever is in it.

use guira_protocol::{
    Command, Cut, Fault, KEY_MAX, KeyBuffer, Line, Meta, MetaFlags, MetaKey, Noreply, ServerCommand,
    VALUE_MAX, cut, parse,
};

/// Cuts `input` into lines and checks each.
pub fn check_input(mut input: &[u8]) {
    loop {
        match cut(input) {
            Cut::Line(line) => {
                check_cut(input, line);
                check_line(line);
                input = &input[line.length..];
            }
            Cut::Unfinished | Cut::TooLong => return assert!(!input.contains(&b'\n')),
        }
    }
}

/// A line is all that comes before the first line end.
fn check_cut(input: &[u8], line: Line<'_>) {
    let (text, end) = input[..line.length].split_at(line.text.len());
    assert_eq!(text, line.text);
    assert!(end == b"\r\n" || (end == b"\n" && !text.ends_with(b"\r")), "it ends with {end:?}");
    assert!(!text.contains(&b'\n'));
    assert_eq!(cut(&input[..line.length]), Cut::Line(line), "what follows a line does not matter");
}

/// Parses a line and checks what comes of it.
pub fn check_line(line: Line<'_>) {
    let parsed = parse(line);
    assert_eq!(format!("{parsed:?}"), format!("{:?}", parse(line)), "the same line, parsed again");
    if line.length > 4 {
        let bare = parse(Line { length: line.text.len() + 1, ..line });
        let shortest = line.text.len() + 1 < 4;
        assert!(shortest || format!("{parsed:?}") == format!("{bare:?}"), "both line ends mean the same");
    }
    match parsed {
        Ok(command) => check_command(&command, line.text),
        Err(fault) => check_fault(fault, line.text),
    }
}

fn check_command(command: &Command<'_>, text: &[u8]) {
    match command {
        Command::Get(get) => {
            let keys: Vec<&[u8]> = get.keys.collect();
            assert!(!keys.is_empty());
            keys.iter().for_each(|key| check_key(key));
            assert_eq!(get.keys.single(), (keys.len() == 1).then(|| keys[0]));
        }
        Command::Store(store) => {
            check_key(store.key);
            assert!(store.length <= VALUE_MAX);
            check_noreply(store.noreply, text);
        }
        Command::Delete(delete) => {
            check_key(delete.key);
            check_noreply(delete.noreply, text);
        }
        Command::Arithmetic(arithmetic) => {
            check_key(arithmetic.key);
            check_noreply(arithmetic.noreply, text);
        }
        Command::Touch(touch) => {
            check_key(touch.key);
            check_noreply(touch.noreply, text);
        }
        Command::Meta(Meta::Set(set)) => {
            check_meta(&set.key, &set.flags);
            assert!(set.length <= VALUE_MAX);
        }
        Command::Meta(Meta::Get(get) | Meta::Delete(get) | Meta::Arithmetic(get, _)) => {
            check_meta(&get.key, &get.flags);
        }
        Command::MetaDebug(key) => check_key(key.bytes(&mut KeyBuffer::from([0; 336]))),
        Command::Server(command) => check_server_command(command, text),
    }
}

fn check_server_command(command: &ServerCommand<'_>, text: &[u8]) {
    match command {
        ServerCommand::FlushAll { noreply, .. } | ServerCommand::Verbosity { noreply, .. } => {
            check_noreply(*noreply, text);
        }
        ServerCommand::FlushPrefixes { prefixes, noreply } => {
            check_noreply(*noreply, text);
            prefixes.for_each(check_key);
        }
        ServerCommand::MetaFlushPrefix(md) => check_meta(&md.key, &md.flags),
        ServerCommand::Stats(rest) | ServerCommand::Admin(_, rest) => assert!(text.ends_with(rest)),
        ServerCommand::MetaNoop | ServerCommand::Version | ServerCommand::Quit => {}
    }
}

fn check_key(key: &[u8]) {
    assert!((1..=KEY_MAX).contains(&key.len()), "a key of {} bytes", key.len());
}

fn check_noreply(noreply: Noreply, text: &[u8]) {
    assert_eq!(noreply == Noreply::Yes, last_word(text) == b"noreply");
}

fn check_meta(key: &MetaKey<'_>, flags: &MetaFlags<'_>) {
    let mut buffer = [0; 336];
    check_key(key.bytes(&mut buffer));
    assert_eq!(key.is_binary(), flags.has(b'b'));
    assert_eq!(flags.quiet(), flags.has(b'q'));
    let letters: Vec<u8> = flags.in_order().map(|(letter, _)| letter).collect();
    assert!(letters.len() <= 18);
    for letter in 0..=u8::MAX {
        let count = letters.iter().filter(|other| **other == letter).count();
        assert_eq!(count, usize::from(flags.has(letter)), "flag {letter}");
    }
    for (letter, token) in flags.in_order() {
        assert!(letter == token[0] && (letter != b'O' || token.len() <= 32));
    }
    assert_eq!(flags.exptime.is_some(), flags.has(b'T'));
    assert_eq!(flags.vivify.is_some(), flags.has(b'N'));
    assert_eq!(flags.recache.is_some(), flags.has(b'R'));
    assert_eq!(flags.cas.is_some(), flags.has(b'C'));
    assert_eq!(flags.cas_new.is_some(), flags.has(b'E'));
    assert!(flags.has(b'F') || flags.client_flags == 0);
    assert!(flags.has(b'J') || flags.initial == 0);
    assert!(flags.has(b'D') || flags.delta == 1);
}

fn check_fault(fault: Fault, text: &[u8]) {
    let stores: &[&[u8]] = &[b"set", b"add", b"replace", b"append", b"prepend", b"cas", b"ms"];
    match fault {
        Fault::Answer(answer) => assert!(answer == "ERROR" || answer.starts_with("CLIENT_ERROR ")),
        Fault::Swallow { answer, bytes, .. } => {
            assert!(answer.starts_with("CLIENT_ERROR "));
            assert!((2..=u64::from(VALUE_MAX) + 2).contains(&bytes));
            let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
            assert!(stores.contains(&word), "only what stores is followed by data");
        }
        Fault::Silent => assert_eq!(last_word(text), b"noreply"),
        Fault::Close => assert!(last_word(text).starts_with(b"HTTP/")),
    }
}

fn last_word(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b' ').rfind(|word| !word.is_empty()).unwrap_or_default()
}

//! Which error replies mean *not applied*, and which *refused*.

use super::*;

#[test]
fn temporary_conditions_are_not_applied() {
    let texts = [
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL.",
        "READONLY You can't write against a read only replica.",
        "READONLY You can't write against a read only replica. script: 1, on @user_script:1.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "CLUSTERDOWN The cluster is down",
        "NOAUTH Authentication required.",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "MISCONF Redis is configured to save RDB snapshots",
        "NOREPLICAS Not enough good replicas to write.",
        "NOSCRIPT No matching script. Please use EVAL.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> \
         replica?)",
        "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 ...",
        "ERR WAITAOF cannot be used with replica instances. Please also note that writes ...",
        "ERR max number of clients reached",
        "ERR max number of clients + cluster connections reached",
        "ERR Error running script (call to f_24d6): @user_script:1: @user_script: 1: \
         -READONLY You can't write against a read only replica.",
        "ERR Error running script (call to f_24d6): @user_script:1: -OOM command not allowed",
        "@user_script: 13: -OOM command not allowed when used memory > 'maxmemory'.\r\n",
    ];
    for text in texts {
        assert_eq!(
            sort_error_reply(text),
            CallError::NotApplied(Fault(text.to_owned()))
        );
    }
}

#[test]
fn permanent_conditions_are_refused() {
    let texts = [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "ERR user_script:1: Script attempted to access nonexistent global variable 'x'",
        "ERR Error running script (call to f_24d6): @user_script:1: \
         WRONGTYPE Operation against a key holding the wrong kind of value",
        "@user_script: 13: Unknown Redis command called from Lua script",
        "ERR the text of a script may say: max number of clients",
        "EXECABORT Transaction discarded",
        "ERR",
        "",
    ];
    for text in texts {
        assert_eq!(
            sort_error_reply(text),
            CallError::Refused(Fault(text.to_owned()))
        );
    }
}

/// As Redis 6.2, 7.0 and 8.2 and Valkey say it. A user may get the right, so nothing about the
/// server is learned.
#[test]
fn a_right_may_also_be_missing_in_a_script() {
    for text in [
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "NOPERM No permissions to access a key",
        "ERR The user executing the script can't access at least one of the keys mentioned in the \
         command arguments script: ecf4, on @user_script:1.",
        "ERR ACL failure in script: No permissions to access a key script: ecf4, on \
         @user_script:1.",
        "ERR ACL failure in script: User ann has no permissions to run the 'set' command script: \
         on @user_script:1.",
        "ERR Error running script (call to f_d1bf): @user_script:1: @user_script: 1: The user \
         executing the script can't run this command or subcommand",
    ] {
        let CallError::Refused(fault) = sort_error_reply(text) else {
            panic!("{text}");
        };
        assert!(fault.is_missing_right(), "{text}");
    }
    let other = "ERR Script attempted to access a non local key in a cluster node";
    assert!(!Fault(other.to_owned()).is_missing_right());
}

#[test]
fn a_node_of_a_cluster_is_refused_with_advice() {
    let texts = [
        "MOVED 3999 127.0.0.1:6381",
        "ASK 3999 127.0.0.1:6381",
        "CROSSSLOT Keys in request don't hash to the same slot",
    ];
    for text in texts {
        let refused = crate::transport::not_a_cluster_client(sort_error_reply(text));
        let CallError::Refused(fault) = refused else {
            panic!("{text}")
        };
        assert!(fault.0.starts_with(text), "{fault}");
        assert!(fault.0.contains("node of a cluster"), "{fault}");
        assert!(fault.0.contains("connect with redis-cluster://"), "{fault}");
    }
}

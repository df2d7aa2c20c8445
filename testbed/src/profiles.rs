//! Servers that are not quite Redis, as their vendors describe them.
//!
//! Each profile names its source. A refused command has the words that the source gives. If it
//! gives none, the words are those of Redis for an unknown command. What no source mentions is as
//! in Redis.

use std::time::Duration;

use leasehold::test_util::{Hello, Profile, Refusal, Refused, Slots, Undeclared};

const fn unknown(commands: &'static [&'static str]) -> Refused {
    Refused {
        commands,
        with: Refusal::Unknown,
    }
}

const NO_RESP3: Hello = Hello::Refused("NOPROTO unsupported protocol version");

const ELASTICACHE: Profile = Profile {
    name: "ElastiCache, cluster mode",
    source: "https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ClientConfig.RestrictedCommands.html",
    refused: &[unknown(&[
        "BGREWRITEAOF",
        "BGSAVE",
        "CONFIG",
        "DEBUG",
        "MIGRATE",
        "REPLICAOF",
        "SAVE",
        "SHUTDOWN",
        "SLAVEOF",
        "SYNC",
    ])],
    slots: Slots::One,
    is_cluster: true,
    ..Profile::REDIS
};

/// Commands that are not on the list of supported ones get NOPERM. The list has CONFIG HELP and no
/// other CONFIG.
const MEMORYSTORE: Profile = Profile {
    name: "Memorystore for Redis Cluster",
    source: "https://docs.cloud.google.com/memorystore/docs/cluster/supported-commands",
    refused: &[Refused {
        commands: &["ACL", "CLIENT SETINFO", "CONFIG GET", "CONFIG SET"],
        with: Refusal::Forbidden,
    }],
    slots: Slots::One,
    is_cluster: true,
    ..Profile::REDIS
};

/// Redis Software, on which Redis Cloud and Azure Managed Redis run.
const ENTERPRISE: Profile = Profile {
    refused: &[unknown(&[
        "ACL LOAD",
        "ACL LOG",
        "ACL SETUSER",
        "BGSAVE",
        "CLIENT NO-EVICT",
        "CLIENT PAUSE",
        "CLIENT REPLY",
        "CLIENT TRACKING",
        "DEBUG",
        "REPLICAOF",
        "RESET",
        "ROLE",
        "SAVE",
        "SELECT",
        "SHUTDOWN",
    ])],
    ..Profile::REDIS
};
const ENTERPRISE_SOURCE: &str =
    "https://redis.io/docs/latest/operate/rs/references/compatibility/commands/server/";
const AZURE_SOURCE: &str = "https://learn.microsoft.com/en-us/azure/redis/choose-clustering-policy";

/// CLUSTER is on the list as well. Clients of sharded clusters need some of it, so it is left out
/// here.
const OCI_SOURCE: &str = "https://docs.oracle.com/iaas/Content/ocicache/restrictedcommands.htm";
const OCI: Refused = unknown(&[
    "ACL",
    "BGREWRITEAOF",
    "BGSAVE",
    "CONFIG SET",
    "DEBUG",
    "MIGRATE",
    "MODULE",
    "PSYNC",
    "REPLICAOF",
    "SAVE",
    "SHUTDOWN",
    "SYNC",
]);

pub const PROFILES: [Profile; 23] = [
    Profile::REDIS,
    ELASTICACHE,
    Profile {
        name: "ElastiCache, IAM login",
        source: "https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/auth-iam.html",
        login_lasts: Some(Duration::from_secs(12 * 3600)),
        ..ELASTICACHE
    },
    // One virtual shard. All keys of a script must be declared; the words for others are those that
    // https://github.com/redisson/redisson/issues/6463 has got.
    Profile {
        name: "ElastiCache Serverless",
        source: "https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/BestPractices.Clients.Redis.LuaScripts.html",
        without_keys: Some("ERR Lua scripts without any input keys are not supported."),
        undeclared: Undeclared::Refused(
            "ERR Script attempted to access keys that do not hash to the same slot",
        ),
        ..ELASTICACHE
    },
    Profile {
        name: "MemoryDB",
        source: "https://docs.aws.amazon.com/memorydb/latest/devguide/restrictedcommands.html",
        refused: &[unknown(&[
            "ACL DELUSER",
            "ACL LOAD",
            "ACL SAVE",
            "ACL SETUSER",
            "BGREWRITEAOF",
            "BGSAVE",
            "CLUSTER ADDSLOT",
            "CLUSTER DELSLOT",
            "CLUSTER SETSLOT",
            "CONFIG",
            "DEBUG",
            "MIGRATE",
            "MODULE",
            "PSYNC",
            "REPLICAOF",
            "SAVE",
            "SHUTDOWN",
            "SLAVEOF",
            "SYNC",
        ])],
        ..ELASTICACHE
    },
    MEMORYSTORE,
    Profile {
        name: "Memorystore for Valkey",
        source: "https://docs.cloud.google.com/memorystore/docs/valkey/supported-commands",
        ..MEMORYSTORE
    },
    Profile {
        name: "Azure Managed Redis, OSS policy",
        source: AZURE_SOURCE,
        slots: Slots::One,
        is_cluster: true,
        ..ENTERPRISE
    },
    // DEL, EXISTS, MGET, MSET, TOUCH and UNLINK may name keys of several slots.
    Profile {
        name: "Azure Managed Redis, Enterprise policy",
        source: AZURE_SOURCE,
        slots: Slots::OneForScripts(Slots::CROSSSLOT),
        ..ENTERPRISE
    },
    Profile {
        name: "Azure Managed Redis, non-clustered",
        source: AZURE_SOURCE,
        ..ENTERPRISE
    },
    Profile {
        name: "Redis Software and Cloud, RESP2",
        source: ENTERPRISE_SOURCE,
        hello: NO_RESP3,
        slots: Slots::OneForScripts(Slots::CROSSSLOT),
        ..ENTERPRISE
    },
    // HELLO is off by default: hello_enabled in
    // https://help.aliyun.com/zh/redis/user-guide/supported-parameters.
    Profile {
        name: "Alibaba Tair, cluster behind a proxy",
        source: "https://www.alibabacloud.com/help/en/redis/support/usage-of-lua-scripts",
        hello: NO_RESP3,
        undeclared: Undeclared::RefusedByText(
            "ERR bad lua script for redis cluster, all the keys that the script uses should be \
             passed using the KEYS array",
        ),
        without_keys: Some(
            "ERR for redis cluster, eval/evalsha number of keys can't be negative or zero",
        ),
        slots: Slots::OneForScripts("ERR eval/evalsha command keys must be in same slot"),
        ..Profile::REDIS
    },
    // The parameter ends the check of texts, and with it that of UNPACK. A call still needs a key.
    // The page names all commands for messages as not supported in scripts of a cluster, and gives
    // no words.
    Profile {
        name: "Alibaba Tair, script_check_enable 0",
        source: "https://www.alibabacloud.com/help/en/redis/support/usage-of-lua-scripts",
        hello: NO_RESP3,
        not_in_scripts: &["PUBLISH", "PUBSUB"],
        without_keys: Some(
            "ERR for redis cluster, eval/evalsha number of keys can't be negative or zero",
        ),
        slots: Slots::OneForScripts("ERR eval/evalsha command keys must be in same slot"),
        ..Profile::REDIS
    },
    // HELLO supports only RESP2: https://www.tencentcloud.com/document/product/239/50393.
    Profile {
        name: "Tencent Cloud, cluster behind a proxy",
        source: "https://www.tencentcloud.com/document/product/239/77219",
        hello: NO_RESP3,
        refused: &[unknown(&[
            "ACL",
            "CLIENT CACHING",
            "CLIENT INFO",
            "CLIENT LIST",
            "CLIENT TRACKING",
            "RESET",
        ])],
        slots: Slots::OneForScripts(Slots::CROSSSLOT),
        ..Profile::REDIS
    },
    // Scripts wait for a lock of the whole database, which changes no reply.
    Profile {
        name: "Upstash",
        source: "https://upstash.com/docs/redis/overall/compatibility",
        ..Profile::REDIS
    },
    Profile {
        name: "Dragonfly",
        source: "https://www.dragonflydb.io/docs/managing-dragonfly/scripting",
        undeclared: Undeclared::RefusedUnlessFlagged("ERR script tried accessing undeclared key"),
        ..Profile::REDIS
    },
    Profile {
        name: "Garnet, without --lua",
        source: "https://github.com/microsoft/garnet/blob/main/libs/server/Resp/CmdStrings.cs",
        refused: &[Refused {
            commands: &["EVAL", "EVALSHA", "SCRIPT"],
            with: Refusal::Words("ERR This instance has Lua scripting support disabled"),
        }],
        ..Profile::REDIS
    },
    Profile {
        name: "Kvrocks, resp3-enabled no",
        source: "https://github.com/apache/kvrocks/blob/unstable/src/commands/cmd_server.cc",
        hello: Hello::Resp2,
        ..Profile::REDIS
    },
    Profile {
        name: "OCI Cache, sharded",
        source: OCI_SOURCE,
        refused: &[
            OCI,
            unknown(&["EVAL", "EVALSHA", "EVAL_RO", "FCALL", "FUNCTION", "SCRIPT"]),
        ],
        slots: Slots::One,
        is_cluster: true,
        ..Profile::REDIS
    },
    Profile {
        name: "OCI Cache, not sharded",
        source: OCI_SOURCE,
        refused: &[OCI, unknown(&["CLUSTER"])],
        ..Profile::REDIS
    },
    Profile {
        name: "Aiven for Valkey",
        source: "https://aiven.io/docs/products/valkey/reference/restricted-commands",
        refused: &[unknown(&[
            "ACL",
            "BGREWRITEAOF",
            "BGSAVE",
            "CLUSTER",
            "COMMAND",
            "CONFIG",
            "DEBUG",
            "FAILOVER",
            "LASTSAVE",
            "MIGRATE",
            "MONITOR",
            "REPLICAOF",
            "SAVE",
            "SHUTDOWN",
            "SLAVEOF",
        ])],
        ..Profile::REDIS
    },
    // A downstream password is checked by the proxy. What it answers is what Envoy 1.40.0 answered:
    // `tests/others/profiles/real.rs`. It says OK to SELECT and ignores it. A script runs on the
    // server of its first key. A server of a cluster refuses keys of other slots; one of several
    // single servers would run it all.
    Profile {
        name: "Envoy",
        source: "https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/other_protocols/redis",
        hello: NO_RESP3,
        refused: &[
            unknown(&[
                "ACL",
                "COMMAND",
                "DBSIZE",
                "PUBSUB",
                "SPUBLISH",
                "SSUBSCRIBE",
                "SUBSCRIBE",
                "SUNSUBSCRIBE",
                "UNSUBSCRIBE",
                "WAIT",
            ]),
            Refused {
                commands: &["CLIENT LIST"],
                with: Refusal::Words("ERR CLIENT subcommand 'LIST' is not supported by the proxy"),
            },
        ],
        without_keys: Some("wrong number of arguments for 'evalsha' command"),
        slots: Slots::OneForScripts(Slots::CROSSSLOT),
        ..Profile::REDIS
    },
    // It ends the connection: https://github.com/twitter/twemproxy/issues/133.
    Profile {
        name: "Twemproxy",
        source: "https://github.com/twitter/twemproxy/blob/master/notes/redis.md",
        refused: &[Refused {
            commands: &[
                "ACL",
                "CLIENT",
                "CLUSTER",
                "COMMAND",
                "CONFIG",
                "DBSIZE",
                "ECHO",
                "HELLO",
                "INFO",
                "KEYS",
                "PUBLISH",
                "PUBSUB",
                "ROLE",
                "SCAN",
                "SCRIPT",
                "SELECT",
                "SPUBLISH",
                "SSUBSCRIBE",
                "SUBSCRIBE",
                "SUNSUBSCRIBE",
                "TIME",
                "UNSUBSCRIBE",
                "WAIT",
            ],
            with: Refusal::Closed,
        }],
        ..Profile::REDIS
    },
];

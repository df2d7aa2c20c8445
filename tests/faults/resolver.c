/* For `resolver.rs`: the name `redis.test` has the address that stands in the file `RESOLVES_TO`, or none. Each
 * question that has no answer adds a byte to the file `REFUSED`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_named(const char *variable, const char *mode) {
    const char *path = getenv(variable);
    return path ? fopen(path, mode) : NULL;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");
    if (node == NULL || strcmp(node, "redis.test") != 0) {
        return real(node, service, hints, found);
    }
    char address[64] = "";
    FILE *file = open_named("RESOLVES_TO", "r");
    if (file != NULL) {
        if (fgets(address, sizeof address, file) == NULL) {
            address[0] = 0;
        }
        fclose(file);
    }
    if (address[0] != 0) {
        return real(address, service, hints, found);
    }
    file = open_named("REFUSED", "a");
    if (file != NULL) {
        fputc('.', file);
        fclose(file);
    }
    return EAI_AGAIN;
}

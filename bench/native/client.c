/* A client at native speed, on librdkafka: what a broker can take when the client is not Python.
 *
 *   client produce BOOTSTRAP TOPIC COUNT SIZE ACKS     sends COUNT records of SIZE bytes
 *   client consume BOOTSTRAP TOPIC COUNT SIZE [BYTES]  reads COUNT records of partition 0 from the start, BYTES a fetch
 *
 * Prints the seconds it took, from the first record to the last acknowledgement or the last record read. The prototypes
 * stand here because the library comes in a Python wheel, which has no headers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_;
} rd_kafka_message_t;

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_consume_start(rd_kafka_topic_t *, int32_t, int64_t);
ssize_t rd_kafka_consume_batch(rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t **, size_t);
void rd_kafka_message_destroy(rd_kafka_message_t *);

static long delivered, failed;

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    if (message->err)
        failed++;
    else
        delivered++;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        exit(2);
    }
}

/* A quarter of each value is chance, so that it compresses about as well as records do. */
static void vary(char *value, size_t size) {
    static unsigned seed = 1;
    for (size_t at = 0; at < size / 4; at++) {
        seed = seed * 1103515245 + 12345;
        value[at] = (char)('a' + (seed >> 16) % 16);
    }
}

static double produce(rd_kafka_t *rk, rd_kafka_topic_t *topic, long count, size_t size, int is_varied) {
    char *value = malloc(size);
    for (size_t at = 0; at < size; at++)
        value[at] = (char)(at * 31);
    double start = now();
    for (long sent = 0; sent < count; sent++) {
        if (is_varied)
            vary(value, size);
        while (rd_kafka_produce(topic, 0, 2 /* copy */, value, size, NULL, 0, NULL))
            rd_kafka_poll(rk, 5);
        if (sent % 1000 == 0)
            rd_kafka_poll(rk, 0);
    }
    rd_kafka_flush(rk, 60000);
    double took = now() - start;
    if (delivered != count) {
        fprintf(stderr, "%ld of %ld delivered, %ld failed\n", delivered, count, failed);
        exit(1);
    }
    return took;
}

static double consume(rd_kafka_topic_t *topic, long count) {
    static rd_kafka_message_t *messages[10000];
    rd_kafka_consume_start(topic, 0, 0);
    double start = 0, deadline = now() + 60;
    long seen = 0;
    while (seen < count && now() < deadline) {
        ssize_t got = rd_kafka_consume_batch(topic, 0, 100, messages, 10000);
        for (ssize_t at = 0; at < got; at++) {
            if (!messages[at]->err && !seen++)
                start = now();
            rd_kafka_message_destroy(messages[at]);
        }
    }
    if (seen < count) {
        fprintf(stderr, "%ld of %ld read\n", seen, count);
        exit(1);
    }
    return now() - start;
}

int main(int argc, char **argv) {
    char error[512];
    if (argc < 6)
        return 2;
    int is_producer = !strcmp(argv[1], "produce");
    long count = atol(argv[4]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[2]);
    if (is_producer) {
        set(conf, "acks", argv[6]);
        set(conf, "linger.ms", "5");
        set(conf, "batch.num.messages", "10000");
        set(conf, "queue.buffering.max.messages", "500000");
        set(conf, "queue.buffering.max.kbytes", "1000000");
        if (argc > 7)
            set(conf, "compression.type", argv[7]);
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    } else {
        set(conf, "queued.min.messages", "1000000");
        set(conf, "fetch.message.max.bytes", argc > 6 ? argv[6] : "4000000");
        set(conf, "check.crcs", "false");
    }
    rd_kafka_t *rk = rd_kafka_new(is_producer ? 0 : 1, conf, error, sizeof error);
    if (!rk) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, argv[3], NULL);
    double took = is_producer ? produce(rk, topic, count, (size_t)atol(argv[5]), argc > 7) : consume(topic, count);
    printf("%.6f\n", took);
    fflush(stdout);
    _Exit(0);
}

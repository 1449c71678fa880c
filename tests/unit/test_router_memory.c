/* Whether there is memory for one more model, and whose end makes some: on the host, on two devices, with a limit, and where
 * nothing is known. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef ZINC_CURL
#include "server/router/router_impl.h"
#include "tests/lib/run.h"

enum { N = 4 };
#define MIB(n) ((uint64_t)(n) << 20)

static struct router_model opts[N];
static struct model model[N];
static struct router r;
static uint64_t host;

static uint64_t host_free(void)
{
    return host;
}

static void begin(void)
{
    memset(opts, 0, sizeof opts);
    memset(model, 0, sizeof model);
    r = (struct router){ .o = { .models = opts, .n_models = N, .max_loaded = N, .host_free = host_free }, .m = model };
    for (int i = 0; i < N; i++) {
        opts[i].bytes = MIB(100);
        model[i].o = &opts[i];
        model[i].used_ns = (uint64_t)(10 + i);
    }
    host = MIB(1000);
}

/* Model i starts at `at`, finds `had` there and takes `held`. */
static void load(int i, const char *place, uint64_t had, uint64_t held, uint64_t at)
{
    struct child_memory c = { .held = held, .had = had };
    snprintf(c.place, sizeof c.place, "%s", place);
    model[i].state = MODEL_LOADING;
    model[i].since_ns = at;
    memory_ready(&r, &model[i], &c);
    model[i].state = MODEL_READY;
    model[i].since_ns = at + 1;
}

static void end(int i)
{
    memory_ended(&r, &model[i]);
    model[i].state = MODEL_OFF;
}

START_TEST(nothing_is_known)
{
    begin();
    ck_assert_int_eq(memory_room(&r, &model[0]), ROOM_NOW);
    load(0, "nothing", 0, MIB(5), 1); /* as --tier null has it */
    ck_assert(memory_needs(&model[0]) == MIB(5) && memory_needs(&model[1]) == MIB(110) && r.n_places == 0);
    ck_assert_int_eq(memory_room(&r, &model[1]), ROOM_NOW);
}
END_TEST

START_TEST(a_device)
{
    begin();
    load(0, "card", MIB(400), MIB(300), 1);
    ck_assert_int_eq(memory_room(&r, &model[1]), ROOM_LATER); /* 110 of 100 */
    ck_assert_ptr_eq(memory_victim(&r, &model[1]), &model[0]);
    model[0].n_running = 1;
    ck_assert_ptr_null(memory_victim(&r, &model[1]));
    ck_assert_int_eq(memory_room(&r, &model[1]), ROOM_LATER); /* it waits for the answer's end */
    model[0].n_running = 0;
    end(0);
    ck_assert_int_eq(memory_room(&r, &model[1]), ROOM_NOW);
    model[1].state = MODEL_LOADING;
    ck_assert_int_eq(memory_room(&r, &model[2]), ROOM_NOW);   /* 110 of 400 - 110 */
    ck_assert_int_eq(memory_room(&r, &model[0]), ROOM_LATER); /* 300, as it took before */
    load(1, "card", MIB(400), MIB(120), 5);
    ck_assert_int_eq(memory_room(&r, &model[0]), ROOM_LATER);
    opts[1].pinned = true; /* it will not go, so that model 0 is tried and says what it lacks */
    ck_assert_int_eq(memory_room(&r, &model[0]), ROOM_NOW);
}
END_TEST

/* Two that start together look before either has taken anything. */
START_TEST(at_the_same_time)
{
    begin();
    model[0].state = model[1].state = MODEL_LOADING;
    load(0, "card", MIB(400), MIB(150), 3);
    load(1, "card", MIB(400), MIB(150), 2);
    ck_assert(r.place[0].free == MIB(100));
    ck_assert_int_eq(memory_room(&r, &model[2]), ROOM_LATER);
    ck_assert_ptr_eq(memory_victim(&r, &model[2]), &model[0]);
    model[0].used_ns = 99;
    ck_assert_ptr_eq(memory_victim(&r, &model[2]), &model[1]); /* the one that has been idle longest */
}
END_TEST

START_TEST(two_devices)
{
    begin();
    load(0, "card 0", MIB(200), MIB(150), 1);
    load(1, "card 1", MIB(900), MIB(100), 2);
    ck_assert_int_eq(memory_room(&r, &model[2]), ROOM_NOW); /* who knows where */
    load(2, "card 1", MIB(800), MIB(100), 3);
    end(2);
    end(0);
    load(3, "card 0", MIB(200), MIB(190), 4);
    ck_assert_int_eq(memory_room(&r, &model[2]), ROOM_NOW);
    ck_assert_int_eq(memory_room(&r, &model[0]), ROOM_LATER);
    ck_assert_ptr_eq(memory_victim(&r, &model[0]), &model[3]); /* not the one on the other card */
}
END_TEST

START_TEST(the_host)
{
    begin();
    load(0, "host", MIB(1000), MIB(300), 1);
    host = MIB(90);
    ck_assert_int_eq(memory_room(&r, &model[1]), ROOM_LATER);
    host = MIB(120);
    ck_assert_int_eq(memory_room(&r, &model[1]), ROOM_NOW);
    host = 0; /* unknown */
    ck_assert_int_eq(memory_room(&r, &model[1]), ROOM_NOW);
}
END_TEST

START_TEST(a_limit)
{
    begin();
    r.o.max_bytes = MIB(250);
    opts[3].bytes = MIB(240);
    ck_assert_int_eq(memory_room(&r, &model[3]), ROOM_NEVER); /* with a tenth, 264 */
    ck_assert_int_eq(memory_room(&r, &model[0]), ROOM_NOW);
    load(0, "host", MIB(1000), MIB(120), 1);
    ck_assert_int_eq(memory_room(&r, &model[1]), ROOM_NOW);
    load(1, "card", MIB(1000), MIB(120), 2);
    ck_assert(!memory_is_over(&r));
    ck_assert_int_eq(memory_room(&r, &model[2]), ROOM_LATER);
    ck_assert_ptr_eq(memory_victim(&r, &model[2]), &model[0]); /* wherever it is */
    load(2, "host", MIB(1000), MIB(11), 3);
    ck_assert(memory_is_over(&r));
}
END_TEST

int main(void)
{
    return RUN_TESTS("router_memory", nothing_is_known, a_device, at_the_same_time, two_devices, the_host, a_limit);
}
#else
int main(void)
{
    printf("built without libcurl: there is no router\n");
    return 77;
}
#endif

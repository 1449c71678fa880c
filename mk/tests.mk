# mk/tests.mk: test programs, fuzz targets, and what runs them.

# tests/SUITE/NAME.c with a name that starts with test_ is a Check program of its own.
TEST_SRC  := $(wildcard tests/unit/test_*.c tests/ops/test_*.c tests/stream/test_*.c tests/e2e/test_*.c)
TEST_BINS := $(TEST_SRC:%.c=$(B)/%)
SIM_TEST_BINS := $(patsubst %.c,$(B)/%,$(wildcard tests/amdsim/test_*.c))
PEER_BINS := $(patsubst %.c,$(B)/%,$(wildcard tests/peer/*.c))
REAL_BINS := $(patsubst %.c,$(B)/%,$(wildcard tests/real/*.c))
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BINS := $(FUZZ_SRC:%.c=$(B)/%)

# A metallib as metalsim knows them.
$(B)/obj/tests/unit/test_metal_library.o: $(K)/msl/basic.metal.zst $(K)/msl/basic.metallib.zst
$(K)/msl/basic.metallib.zst: $(K)/msl/basic.metal $(K)/compress
	@{ printf MTLB; cat $<; } | $(K)/compress >$@

# A Vulkan library that fails when told to (tests/e2e/test_vulkan_faults.sh).
FAULTY_VK := $(if $(HAVE_VK),$(B)/tests/e2e/libfaulty_vulkan.so)
$(B)/tests/e2e/libfaulty_vulkan.so: tests/e2e/faulty_vulkan.c
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) -std=gnu17 -O1 -g $(WARN) -Wno-missing-prototypes -fPIC -shared -o $@ $< -ldl

tests: $(TEST_BINS) $(FAULTY_VK) $(SIM_TEST_BINS) $(SIM_CLIENT_BINS) $(PEER_BINS) $(REAL_BINS) ## build the test programs
$(B)/tests/unit/% $(B)/tests/ops/% $(B)/tests/stream/% $(B)/tests/e2e/% $(B)/tests/amdsim/test_%: LDLIBS += $(CHECK_LIBS)
# Where a sanitizer tells where something died, Check need not (tests/lib/mark_point.c).
ifneq ($(filter sanitize thread,$(config)),)
MARK_POINT := $(B)/obj/tests/lib/mark_point.o
$(TEST_BINS) $(SIM_TEST_BINS): $(MARK_POINT)
$(TEST_BINS) $(SIM_TEST_BINS): private LDFLAGS += -Wl,--wrap=_mark_point
endif
# Whose kernels a sanitizer build watches; whole models run the release build's.
ifeq ($(config),sanitize)
WATCHED := test_lockstep test_lockstep_hopper test_attn_rope test_kvcopy test_router_rows test_shared_expert test_sm90_kernels
$(WATCHED:%=$(B)/tests/unit/%): $(K_WATCHED_OBJ) $(B)/obj/rt/lockstep/hopper.o
endif
# In other builds than release malloc is somebody else's (the sanitizer's, the allocation guard's): calls of it are renamed.
$(B)/tests/unit/test_alloc_%: LDFLAGS += $(if $(filter-out release,$(config)),$(patsubst %,-Wl$(comma)--wrap=%,$(WRAPPED)))
WRAPPED := malloc calloc realloc reallocarray memalign aligned_alloc posix_memalign strdup strndup
comma   := ,
# Tests are compiled quickly, not to be quick: where each assertion is looked at as well, optimising them takes ten times as long as
# compiling them, but for the few that compute much themselves. -rpath: build/kernels, from build/tests/SUITE or build/CONFIG/tests/SUITE.
$(B)/obj/tests/%.o: CFLAGS := $(subst -O3,-O1,$(CFLAGS))
ifneq ($(filter sanitize thread,$(config)),)
TEST_COMPUTES := unit/test_mm_% unit/test_quant_% ops/% stream/% amdsim/test_isa_% peer/% real/%
$(patsubst %.c,$(B)/obj/%.o,$(filter-out $(addprefix tests/,$(TEST_COMPUTES)),$(wildcard tests/*/*.c))): CFLAGS := $(subst -O3,-O0,$(subst -O1,-O0,$(CFLAGS)))
endif
# They are many, and LLVM's linker, where it is, takes a fraction of the other's time; programs, libraries and other builds are ld's.
TEST_LDFLAGS = $(LDFLAGS) $(if $(MACOS),,$(if $(filter release sanitize,$(config)),$(LLD))) -Wl,--as-needed -Wl,-rpath,'$$ORIGIN/../..$(if $(filter release,$(config)),,/..)/kernels'
# Those of libzinc know its header alone, as programs do.
LIBZINC_TESTS := $(patsubst %.c,$(B)/%,$(wildcard tests/unit/test_libzinc*.c))
$(LIBZINC_TESTS): $(B)/tests/%: $(B)/obj/tests/%.o $(LIBZINC_SO)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../..' -o $@ $^ $(CHECK_LIBS) -lm
$(filter-out $(LIBZINC_TESTS),$(TEST_BINS)): $(B)/tests/%: $(B)/obj/tests/%.o $(TEST_LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(TEST_LDFLAGS) -o $@ $(filter %.o,$^) $(filter-out %.o,$^) $(LDLIBS)
$(SIM_TEST_BINS): $(B)/tests/amdsim/%: $(B)/obj/tests/amdsim/%.o $(B)/libamdsim_core.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Calls of the kernel, libdrm's as well, go through this program, which counts them.
$(B)/tests/e2e/test_amd_steps: TEST_LDFLAGS += -Wl,--export-dynamic-symbol=ioctl

check: all tests ## build and run the tests (config=debug, config=sanitize for the other builds)
	@tests/run $(B) $(SUITES)

$(PEER_BINS) $(REAL_BINS): $(B)/tests/%: $(B)/obj/tests/%.o $(TEST_LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(TEST_LDFLAGS) -o $@ $^ $(LDLIBS)

peer: all $(PEER_BINS) ## compare tokens, logits and formats with llama.cpp (its npm package, or ZINC_PEER_DIR)
	@tests/peer/run $(B)

$(FUZZ_BINS): $(B)/tests/fuzz/%: $(B)/obj/tests/fuzz/%.o $(TEST_LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(TEST_LDFLAGS) -fsanitize=address,undefined,fuzzer -o $@ $^ $(LDLIBS)

# The cpu tier's arithmetic sees tensors alone, whose sizes were checked, and clang takes minutes to instrument it.
ifeq ($(config),fuzz)
$(B)/obj/oracle/%.o: CFLAGS := $(subst $(CFLAGS_fuzz),-O1 -g1 -DZINC_DEBUG_CHECKS=1,$(CFLAGS))
endif
fuzz: $(FUZZ_BINS) ## build the fuzz targets (needs config=fuzz)
fuzz-run: fuzz ## replay the corpora and a fixed number of runs from a fixed seed; with FUZZ_SECONDS=N explore for so long
	@tests/fuzz/run $(B)

.PHONY: models-page
models-page: all ## run families, types and tiers that doc/models.md does not have yet, and write it anew
	@tools/models_page.sh

bench: all $(PEER_BINS) ## measure decode and prefill beside the memory roof, on synthetic models
	@tests/bench $(B)

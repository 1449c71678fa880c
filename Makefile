# zinc: one Makefile, everything under build/.  `make help` lists what can be made.
config ?= release
B      := $(if $(filter release,$(config)),build,build/$(config))
PREFIX ?= /usr/local
CC     ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
CLANG  ?= clang-19
PKGS   := libutf8proc jansson libxxhash libelf libmicrohttpd
VERSION := 0.1.0

WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter -Wno-psabi
CFLAGS_release  := -O3 -g -DNDEBUG
CFLAGS_debug    := -O1 -g -DZINC_DEBUG_CHECKS=1
CFLAGS_sanitize := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined -DZINC_DEBUG_CHECKS=1
CFLAGS_fuzz     := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -DZINC_DEBUG_CHECKS=1
ifeq ($(config),fuzz)
CC := $(CLANG)
endif
ifeq ($(filter $(config),release debug sanitize fuzz),)
$(error config=$(config): choose release, debug, sanitize or fuzz)
endif

# -ffp-contract=off: the canonical arithmetic writes fma where it means fma, so that every build gives the same bits.
CFLAGS  := -std=gnu17 $(WARN) $(CFLAGS_$(config)) -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing -pthread \
           -I. -I$(B)/gen -D_GNU_SOURCE -DZINC_VERSION='"$(VERSION)"' $(shell pkg-config --cflags $(PKGS)) $(EXTRA_CFLAGS)
LDFLAGS := $(filter -fsanitize=%,$(subst fuzzer-no-link,,$(CFLAGS_$(config)))) -pthread $(EXTRA_LDFLAGS)
ifeq ($(config),fuzz)
LDFLAGS := -fsanitize=address,undefined -pthread
endif
LDLIBS  := $(shell pkg-config --libs $(PKGS)) -lm -ldl

# ---- kernels ----
# kernels/kernels.def names the modules; a module FILE_SET is FILE.c compiled with KD_SET_<SET>. Each is compiled for the
# host (rt/lockstep) in every configuration, and by clang once for each device target into build/kernels, from where the
# objects are embedded. Without clang the programs have no GPU tiers.
K           := build/kernels
K_SET_FILES := gemm_wgmma gemm matvec1 matvec
K_LIST       = printf '\#define KERNEL(n, m, a, t) @\#m@\n\#define KERNEL_SM90(n, m, a, t) @$(1)\#m@\n\#include "kernels/kernels.def"\n' | \
               $(CC) -E -P -x c -I. - | tr '@' '\n' | sed -n 's/^"\(.*\)"$$/\1/p' | sort -u
MODULES_ALL := $(shell $(call K_LIST,))
MODULES     := $(shell $(call K_LIST,x))
k_file       = $(firstword $(if $(wildcard kernels/$(1).c),$(1)) $(foreach f,$(K_SET_FILES),$(if $(filter $(f)_%,$(1)),$(f))))
k_set        = $(if $(wildcard kernels/$(1).c),,-DKD_SET_$(patsubst $(call k_file,$(1))_%,%,$(1)))
K_FLAGS     := -std=gnu17 -O3 $(filter-out -Wno-psabi -Wmissing-prototypes,$(WARN)) -ffp-contract=off -fno-math-errno -ffreestanding -nogpulib -I.
# For the host: quick to compile. Debug and fuzz builds take the release build's; a sanitizer build has its own.
KH           := $(if $(filter sanitize,$(config)),$(B),build)
K_HOST_CC    := $(if $(filter fuzz,$(config)),gcc,$(CC))
K_HOST_FLAGS  = $(if $(filter sanitize,$(config)),$(CFLAGS),$(subst $(CFLAGS_$(config)),$(CFLAGS_release),$(CFLAGS))) -O1 \
                $(if $(findstring clang,$(K_HOST_CC)),,-fno-var-tracking)
AMD_TARGETS := gfx1100 gfx1151 gfx1200 gfx1201
HAVE_NV     := $(shell echo 'void f(void) {}' | $(CLANG) --target=nvptx64-nvidia-cuda -march=sm_90a -x c - -S -o /dev/null 2>/dev/null && echo yes)
HAVE_AMD    := $(shell echo 'void f(void) {}' | $(CLANG) --target=amdgcn-amd-amdhsa -mcpu=gfx1201 -nogpulib -fuse-ld=lld -x c - -o /dev/null 2>/dev/null && echo yes)
ifneq ($(filter 1,$(NO_KERNELS)),)
HAVE_NV :=
HAVE_AMD :=
endif
ifeq ($(HAVE_NV),)
$(if $(filter help clean format%,$(MAKECMDGOALS)),,$(info note: $(CLANG) cannot compile for GPUs here: built without kernels for the cuda tier (apt-get install clang-19)))
endif
ifeq ($(HAVE_AMD),)
$(if $(filter help clean format%,$(MAKECMDGOALS)),,$(info note: no code objects for AMD in this build (apt-get install clang-19 lld-19)))
endif
# Vulkan's kernels: vk/shaders/NAME.comp by glslc to SPIR-V, once with the integer dot product's instruction and once
# without. glslc and the Vulkan headers are all that is needed; the loader is opened at run time.
GLSLC   ?= glslc
HAVE_VK := $(shell command -v $(GLSLC) >/dev/null && echo '\#include <vulkan/vulkan.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
ifneq ($(filter 1,$(NO_VULKAN)),)
HAVE_VK :=
endif
ifeq ($(HAVE_VK),)
$(if $(filter help clean format%,$(MAKECMDGOALS)),,$(info note: no glslc or no Vulkan headers: built without the vulkan tier (apt-get install glslc libvulkan-dev)))
endif
CFLAGS  += $(if $(HAVE_VK),-DZINC_VULKAN)
# A kernel of VK_TYPED is compiled once for each set of weight types (vk/shaders/types.glsl): modules NAME_SET.
lp := (
VK_TYPED  := $(shell sed -n 's/^VK_TYPED$(lp)\([a-z0-9_]*\),.*/\1/p' vk/kernels.def)
VK_SETS   := $(shell sed -n 's/^X(.*, \([a-z0-9]*\))$$/\1/p' kernels/qtypes.def) q4k_q6k q5k_q6k any
SHADERS   := $(if $(HAVE_VK),$(filter-out $(VK_TYPED),$(sort $(patsubst vk/shaders/%.comp,%,$(wildcard vk/shaders/*.comp)))) \
               $(foreach f,$(patsubst vk/shaders/%.comp,%,$(wildcard $(VK_TYPED:%=vk/shaders/%.comp))),$(VK_SETS:%=$(f)_%)))
BLOBS := $(SHADERS:%=$(K)/spirv/%.spv) $(SHADERS:%=$(K)/spirv_plain/%.spv) $(if $(HAVE_NV),$(MODULES:%=$(K)/sm_80/%.ptx) $(MODULES_ALL:%=$(K)/sm_90a/%.ptx)) \
         $(if $(HAVE_AMD),$(foreach t,$(AMD_TARGETS),$(MODULES:%=$(K)/$(t)/%.co)))
HOST_KERNEL_OBJ := $(MODULES:%=$(KH)/obj/kernels/%.o)

# One library of everything below the programs; a folder's sources are whatever lies in it.
LIB_DIRS := base model graph oracle rt rt/lockstep rt/pm4 rt/kfd cuda $(if $(HAVE_VK),vk) engine engine/proof server
LIB_SRC  := $(foreach d,$(LIB_DIRS),$(wildcard $(d)/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/obj/%.o) $(HOST_KERNEL_OBJ) $(K)/blobs.o
CLI_SRC  := $(wildcard cli/*.c)
CLI_OBJ  := $(CLI_SRC:%.c=$(B)/obj/%.o)
LIB      := $(B)/libzinc.a

# Instruction sets are chosen per file by its suffix and at run time by oracle/isa.c.
MACHINE := $(shell $(CC) -dumpmachine)
ifneq ($(findstring x86_64,$(MACHINE)),)
ISA_avx2   := -mavx2 -mfma -mf16c
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
ISA_amx    := $(ISA_avx512) -mamx-tile -mamx-int8 -mamx-bf16
endif
isa_flags = $(if $(filter %_avx2.c,$<),$(ISA_avx2))$(if $(filter %_avx512.c,$<),$(ISA_avx512))$(if $(filter %_amx.c,$<),$(ISA_amx))

# tools/NAME.c is a program of one file; tools/NAME/*.c is a program of several.
TOOLS     := $(patsubst tools/%.c,%,$(wildcard tools/*.c)) $(patsubst tools/%/main.c,%,$(wildcard tools/*/main.c))
TOOLS     := $(if $(HAVE_VK),$(TOOLS),$(filter-out vkstats,$(TOOLS)))
TOOL_BINS := $(addprefix $(B)/,$(TOOLS))
PROGRAMS  := $(if $(CLI_SRC),$(B)/zinc) $(TOOL_BINS) $(if $(wildcard tools/amdsim/main.c),$(B)/libamdsim.so)

# tests/SUITE/NAME.c with a name that starts with test_ is a Check program of its own.
TEST_SRC  := $(wildcard tests/unit/test_*.c tests/ops/test_*.c tests/stream/test_*.c tests/e2e/test_*.c)
TEST_BINS := $(TEST_SRC:%.c=$(B)/%)
SIM_TEST_BINS := $(patsubst %.c,$(B)/%,$(wildcard tests/amdsim/test_*.c))
TEST_LIB_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/lib/*.c))
PEER_BINS := $(patsubst %.c,$(B)/%,$(wildcard tests/peer/*.c))
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BINS := $(FUZZ_SRC:%.c=$(B)/%)


.PHONY: kernels all check tests peer fuzz fuzz-run bench format format-check gen gen-check install uninstall clean help
.DEFAULT_GOAL := all
.SECONDARY:

all: $(PROGRAMS) ## build the programs into build/

# The chat page: its parts written into one file, which is embedded.
PAGE := $(B)/gen/page.html
$(PAGE): tools/gen/inline_page.sh $(wildcard server/page/*)
	@mkdir -p $(@D)
	@tools/gen/inline_page.sh server/page/index.html >$@.tmp && mv $@.tmp $@
$(B)/obj/server/page.o: $(PAGE)
$(B)/obj/server/page.o: CFLAGS += -DZINC_PAGE='"$(PAGE)"'

$(LIB): $(LIB_OBJ)
	@rm -f $@
	@echo "  AR    $@"
	@ar rcs $@ $^

$(B)/zinc: $(CLI_OBJ) $(LIB)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) $(isa_flags) -MMD -MP -c -o $@ $<

define module_rules
$(KH)/obj/kernels/$(1).o: kernels/$(call k_file,$(1)).c
	@mkdir -p $$(@D)
	@echo "  CC    $(1)"
	@$$(K_HOST_CC) $$(K_HOST_FLAGS) $(call k_set,$(1)) -MMD -MP -c -o $$@ $$<
$(K)/sm_80/$(1).ptx: kernels/$(call k_file,$(1)).c $(K)/threads.txt tools/ptx_threads.awk
	@mkdir -p $$(@D)
	@echo "  PTX   $$@"
	@$(CLANG) $(K_FLAGS) $(call k_set,$(1)) --target=nvptx64-nvidia-cuda -march=sm_80 -Xclang -target-feature -Xclang +ptx83 -MMD -MF $$@.d -MT $$@ -S -o $$@.s $$<
	@awk -f tools/ptx_threads.awk $(K)/threads.txt $$@.s >$$@ && rm $$@.s
$(K)/sm_90a/$(1).ptx: kernels/$(call k_file,$(1)).c $(K)/threads.txt tools/ptx_threads.awk
	@mkdir -p $$(@D)
	@echo "  PTX   $$@"
	@$(CLANG) $(K_FLAGS) $(call k_set,$(1)) -DKD_SM90 --target=nvptx64-nvidia-cuda -march=sm_90a -Xclang -target-feature -Xclang +ptx83 -MMD -MF $$@.d -MT $$@ -S -o $$@.s $$<
	@awk -f tools/ptx_threads.awk $(K)/threads.txt $$@.s >$$@ && rm $$@.s
endef
$(foreach m,$(MODULES_ALL),$(eval $(call module_rules,$(m))))
define amd_rule
$(K)/$(2)/$(1).co: kernels/$(call k_file,$(1)).c $(K)/threads.txt
	@mkdir -p $$(@D)
	@echo "  AMD   $$@"
	@sed -n 's/^\([^ ]*\) \([^ ]*\) $(1)$$$$/\1,amdgpu-flat-work-group-size=\2,\2/p' $(K)/threads.txt >$$@.csv
	@$(CLANG) $(K_FLAGS) $(call k_set,$(1)) --target=amdgcn-amd-amdhsa -mcpu=$(2) -fuse-ld=lld -mllvm -forceattrs-csv-path=$$@.csv -MMD -MF $$@.d -MT $$@ -o $$@ $$<
endef
$(foreach t,$(AMD_TARGETS),$(foreach m,$(MODULES),$(eval $(call amd_rule,$(m),$(t)))))

# $(call spirv_rule,FOLDER,MODULE,SOURCE,FLAGS,REWRITE). Kernels on cooperative matrices are written with NVIDIA's GLSL
# extension, which this glslc knows, and rewritten to KHR's SPIR-V.
define spirv_rule
$(K)/$(1)/$(2).spv: vk/shaders/$(3).comp $(K)/gen/args.glsl $(if $(5),$(K)/spirv_khr)
	@mkdir -p $$(@D)
	@echo "  GLSL  $$@"
	@$(GLSLC) --target-env=vulkan1.2 -fshader-stage=compute $(4) -I$(K)/gen -Ivk/shaders -MD -MF $$@.d -MT $$@ -o $$@$(if $(5),.nv) $$<
	$(if $(5),@$(K)/spirv_khr <$$@.nv >$$@.khr && mv $$@.khr $$@ && rm $$@.nv)
endef
define spirv_rules
$(call spirv_rule,spirv,$(1),$(2),-DZK_DOT4 $(3),$(filter %coopmat,$(2)))
$(call spirv_rule,spirv_plain,$(1),$(2),$(3),$(filter %coopmat,$(2)))
endef
VK_FILES := $(patsubst vk/shaders/%.comp,%,$(wildcard vk/shaders/*.comp))
$(foreach f,$(filter-out $(VK_TYPED),$(VK_FILES)),$(eval $(call spirv_rules,$(f),$(f),)))
$(foreach f,$(VK_TYPED),$(foreach s,$(VK_SETS),$(eval $(call spirv_rules,$(f)_$(s),$(f),-DZK_TYPED -DZK_SET_$(s)))))
$(K)/spirv_khr: tools/gen/spirv_khr.c
	@mkdir -p $(@D)
	@$(CC) -std=gnu17 -O1 $(WARN) -o $@ $<
$(K)/gen/args.glsl: $(K)/glsl_args
	@mkdir -p $(@D)
	@$< >$@
$(K)/glsl_args: tools/gen/glsl_args.c $(wildcard kernels/*.h kernels/*.def) vk/vkargs.h
	@mkdir -p $(@D)
	@$(CC) -std=gnu17 $(WARN) -I. -o $@ $<

# Threads of each kernel, as PTX and as the AMD compiler want to be told them.
$(K)/threads.txt: kernels/kernels.def
	@mkdir -p $(@D)
	@printf '#define KERNEL(n, m, a, t) @k_ ## n t m@\n#include "kernels/kernels.def"\n' | $(CC) -E -P -x c -I. - | tr '@' '\n' | sed -n 's/^ *\(k_.*\)/\1/p' >$@
# The table of blobs: assembly that includes the objects, and C that names them.
$(K)/blobs.c: $(BLOBS) Makefile
	@mkdir -p $(@D)
	@tools/blobs.sh $(BLOBS) >$@
$(K)/blobs.o: $(K)/blobs.c rt/blob.h
	@$(CC) -std=gnu17 -I. -c -o $@ $<

kernels: $(BLOBS) $(HOST_KERNEL_OBJ) ## compile the GPU kernels for every target

define tool_rule
$(B)/$(1): $(patsubst %.c,$(B)/obj/%.o,$(wildcard tools/$(1).c tools/$(1)/*.c)) $(LIB)
	@echo "  LINK  $$@"
	@$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
endef
$(foreach t,$(filter-out amdsim,$(TOOLS)),$(eval $(call tool_rule,$(t))))
$(B)/amdsim: $(B)/obj/tools/amdsim/main.o $(B)/obj/tools/amdsim/chip.o
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^

# ---- amdsim: the AMD hardware model, a library to preload and its launcher (build/amdsim); it knows nothing of zinc ----
SIM_SRC   := $(wildcard tools/amdsim/*.c tools/amdsim/isa/*.c tools/amdsim/cp/*.c tools/amdsim/kmd/*.c)
SIM_OBJ   := $(patsubst %.c,$(B)/pic/%.o,$(filter-out tools/amdsim/main.c,$(SIM_SRC)))
SIM_CORE  := $(filter-out $(B)/pic/tools/amdsim/kmd/%,$(SIM_OBJ))
SIM_FLAGS  = $(subst -O1,-O2,$(CFLAGS)) -fPIC -fvisibility=hidden
$(B)/pic/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(SIM_FLAGS) $(isa_flags) -MMD -MP -c -o $@ $<
$(B)/libamdsim.so: $(SIM_OBJ)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -shared -o $@ $^ -lm -ldl
$(B)/libamdsim_core.a: $(SIM_CORE)
	@rm -f $@
	@echo "  AR    $@"
	@ar rcs $@ $^

# Clients of the AMD kernel interface that are not ours; built where their libraries are.
SIM_CLIENT_SRC  := $(wildcard tests/amdsim/client_raw*.c) $(if $(shell pkg-config --exists libhsakmt && echo y),$(wildcard tests/amdsim/client_hsakmt*.c)) \
                   $(if $(shell pkg-config --exists libdrm_amdgpu && echo y),$(wildcard tests/amdsim/client_drm*.c))
SIM_CLIENT_BINS := $(SIM_CLIENT_SRC:%.c=$(B)/%)
$(SIM_CLIENT_BINS): $(B)/%: %.c
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(CFLAGS) $(shell pkg-config --cflags libhsakmt libdrm_amdgpu 2>/dev/null) $(LDFLAGS) -o $@ $< \
	   $(if $(findstring hsakmt,$<),$(shell pkg-config --libs libhsakmt 2>/dev/null)) \
	   $(if $(findstring client_raw,$<),,$(shell pkg-config --libs libdrm_amdgpu libdrm 2>/dev/null)) -pthread

# A Vulkan library that fails when told to (tests/e2e/test_vulkan_faults.sh).
FAULTY_VK := $(if $(HAVE_VK),$(B)/tests/e2e/libfaulty_vulkan.so)
$(B)/tests/e2e/libfaulty_vulkan.so: tests/e2e/faulty_vulkan.c
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) -std=gnu17 -O1 -g $(WARN) -Wno-missing-prototypes -fPIC -shared -o $@ $< -ldl

tests: $(TEST_BINS) $(FAULTY_VK) $(SIM_TEST_BINS) $(SIM_CLIENT_BINS) $(PEER_BINS) ## build the test programs
$(B)/tests/unit/% $(B)/tests/ops/% $(B)/tests/stream/% $(B)/tests/e2e/%: LDLIBS += $(shell pkg-config --libs check)
$(TEST_BINS): $(B)/tests/%: $(B)/obj/tests/%.o $(TEST_LIB_OBJ) $(LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(B)/tests/amdsim/%: LDLIBS += $(shell pkg-config --libs check)
$(SIM_TEST_BINS): $(B)/tests/amdsim/%: $(B)/obj/tests/amdsim/%.o $(B)/libamdsim_core.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

check: all tests ## build and run the tests (config=debug, config=sanitize for the other builds)
	@tests/run $(B) $(SUITES)

$(PEER_BINS): $(B)/tests/peer/%: $(B)/obj/tests/peer/%.o $(LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

peer: all $(PEER_BINS) ## compare tokens, logits and formats with llama.cpp (its npm package, or ZINC_PEER_DIR)
	@tests/peer/run $(B)

$(FUZZ_BINS): $(B)/tests/fuzz/%: $(B)/obj/tests/fuzz/%.o $(LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) -fsanitize=address,undefined,fuzzer -pthread -o $@ $^ $(LDLIBS)

fuzz: $(FUZZ_BINS) ## build the fuzz targets (needs config=fuzz)
fuzz-run: fuzz ## run each fuzz target for FUZZ_SECONDS (default 60)
	@tests/fuzz/run $(B) $(or $(FUZZ_SECONDS),60)

bench: all $(PEER_BINS) ## measure decode and prefill beside the memory roof, on synthetic models
	@tests/bench $(B)

FORMATTED = $(shell git ls-files '*.c' '*.h' | grep -v '/gen/')
format: ## rewrite the sources with clang-format
	@clang-format -i $(FORMATTED)
format-check:
	@clang-format --dry-run -Werror $(FORMATTED)

gen: ## rewrite the generated files under */gen/
	@for g in tools/gen_*.sh tools/gen_*.py; do [ ! -e $$g ] || $$g || exit 1; done
gen-check: gen ## fail when a generated file differs from its generator's output
	@git diff --exit-code -- '*/gen/*'

install: all ## install zinc, its man page and a systemd unit below PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(B)/zinc $(DESTDIR)$(PREFIX)/bin/zinc
	install -m 644 doc/zinc.1 $(DESTDIR)$(PREFIX)/share/man/man1/zinc.1
	install -Dm 644 share/zinc.service $(DESTDIR)$(PREFIX)/share/zinc/zinc.service
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/zinc $(DESTDIR)$(PREFIX)/share/man/man1/zinc.1 $(DESTDIR)$(PREFIX)/share/zinc/zinc.service

clean: ## remove build/
	rm -rf build

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12 | sed 's/^/  make /'
	@echo "  config=release|debug|sanitize|fuzz, PREFIX=DIR, CC=gcc|clang-19, SUITES='unit ops stream amdsim e2e'"

-include $(shell find $(B)/obj $(B)/pic $(KH)/obj/kernels $(K) -name '*.d' 2>/dev/null)

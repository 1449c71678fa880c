# zinc: everything is made under build/; `make help` lists what can be made. Programs here; the parts in mk/*.mk.
config ?= release
B      := $(if $(filter release,$(config)),build,build/$(config))
PREFIX ?= /usr/local
CC     ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
CLANG  ?= clang-19
GLSLC  ?= glslc
PTXAS  ?= ptxas
# Apple's, of Xcode; the arithmetic is what metal/kernels.c asks of the driver.
METALC ?= xcrun -sdk macosx metal -std=metal3.2 -target air64-apple-macos15.0 -fmetal-math-mode=safe -fmetal-math-fp32-functions=precise -ffp-contract=off
METALLINK ?= xcrun -sdk macosx metallib
# On macOS (doc/macos.md) what it lacks of Linux comes from base/macos, and there are no tiers for AMD cards.
MACOS  := $(filter Darwin,$(shell uname -s))
PACKAGES := libutf8proc jansson libxxhash $(if $(MACOS),,libelf) gnutls libzstd
VERSION := 0.1.0

WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter -Wno-psabi
# Sanitizers print lines and calls: -g1 has them, and where variables are to be found costs as much as all else (EXTRA_CFLAGS=-g).
# _FORTIFY_SOURCE: calls of the C library whose buffers the compiler knows are held to their size; costs nothing that can be measured.
CFLAGS_release  := -O3 -DNDEBUG -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
CFLAGS_debug    := -O1 -g -DZINC_DEBUG_CHECKS=1
CFLAGS_sanitize := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined -DZINC_DEBUG_CHECKS=1
CFLAGS_thread   := -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread -Wno-tsan -DZINC_DEBUG_CHECKS=1
CFLAGS_fuzz     := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -DZINC_DEBUG_CHECKS=1
ifeq ($(config),fuzz)
CC := $(CLANG)
endif
ifeq ($(filter $(config),release debug sanitize thread fuzz),)
$(error config=$(config): choose release, debug, sanitize, thread or fuzz)
endif

# What the compilers and libraries here can do is found out once (mk/probe.sh), and again when others are asked for, when a
# package came or went (which changes a folder), or while something is missing. Goals that build nothing do without.
MAKEFLAGS += --no-builtin-rules
.SECONDEXPANSION:
.DELETE_ON_ERROR:
K        := build/kernels
PROBE    := $(B)/probe.mk
PROBE_OF := $(strip $(CC) $(CLANG) $(GLSLC) $(PTXAS) $(PACKAGES) $(PKG_CONFIG_PATH))
ifneq ($(filter-out help clean format format-check install-files uninstall,$(or $(MAKECMDGOALS),all)),)
include $(PROBE) $(K)/lists.mk
endif
$(PROBE): mk/probe.sh $(wildcard /usr/bin /usr/local/bin /usr/include /usr/lib/*/pkgconfig)
	@mkdir -p $(@D)
	@CC='$(CC)' CLANG='$(CLANG)' GLSLC='$(GLSLC)' PTXAS='$(PTXAS)' METALC='$(METALC)' METALLINK='$(METALLINK)' PACKAGES='$(PACKAGES)' ARCHIVES='$(STATIC_NAMES)' PROBE_OF='$(PROBE_OF)' $< >$@.tmp && mv $@.tmp $@
# make reads the makefiles again when it has made one of them, and then knows MAKE_RESTARTS.
PROBE_FOUND := $(and $(HAVE_NV),$(HAVE_AMD),$(HAVE_VK),$(PKG_LIBS),$(CHECK_LIBS),$(EDIT_LIBS),$(CURL_LIBS),everything)
ifndef MAKE_RESTARTS
ifneq ($(PROBE_FOUND) of $(PROBED),everything of $(PROBE_OF))
$(PROBE): again
.PHONY: again
PROBING := yes
endif
endif
note = $(if $(PROBING),,$(info note: $(1)))

# $(call says,FILE,WORDS): a file of these words. What depends on it is made again when they change: when a library or a tool came,
# and with it sources and objects that an archive, newer than all of them, would do without (.SECONDARY).
define says
.PHONY: $(if $(findstring <$(2)>,<$(shell cat $(1) 2>/dev/null)>),,$(1))
$(1):
	@mkdir -p $$(@D)
	@echo '$(2)' >$$@
endef

# -ffp-contract=off: the canonical arithmetic writes fma where it means fma, so that every build gives the same bits.
CFLAGS  := -std=gnu17 $(WARN) $(CFLAGS_$(config)) -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing -pthread \
           -I. -I$(B)/gen -D_GNU_SOURCE -DZINC_VERSION='"$(VERSION)"' $(PKG_CFLAGS) $(EXTRA_CFLAGS)
ifneq ($(MACOS),)
CFLAGS += -include base/macos/macos.h -Ibase/macos/include
endif
LDFLAGS := $(filter -fsanitize=%,$(subst fuzzer-no-link,,$(CFLAGS_$(config)))) -pthread $(EXTRA_LDFLAGS)
ifeq ($(config),fuzz)
LDFLAGS := -fsanitize=address,undefined -pthread
endif
# Relocations are done, and read-only, before main.
ifeq ($(config)$(MACOS),release)
LDFLAGS += -Wl,-z,relro,-z,now
endif
LDLIBS  := $(PKG_LIBS) -lm -ldl

# Device code is the same for all configurations.
include mk/vulkan.mk
include mk/kernels.mk

# AMD cards over a render node: libdrm's headers here, its libraries are opened at run time.
ifeq ($(DRM_LIBS),)
$(call note,no libdrm_amdgpu by pkg-config: built without the umq and cs tiers (apt-get install libdrm-dev))
else
CFLAGS += -DZINC_DRM $(DRM_CFLAGS)
endif

# The line editor of zinc chat.
ifeq ($(EDIT_LIBS),)
$(call note,no libedit by pkg-config: zinc chat edits no lines (apt-get install libedit-dev))
endif
$(B)/obj/cli/line_edit.o: CFLAGS += $(if $(EDIT_LIBS),-DZINC_EDIT $(EDIT_CFLAGS))
$(B)/zinc: LDLIBS += $(EDIT_LIBS)

# The catalogue of models is embedded.
$(B)/obj/pull/catalogue.o: share/catalogue.json
$(B)/obj/pull/catalogue.o: CFLAGS += -DZINC_CATALOGUE='"share/catalogue.json"'

# Models by name, which are pulled over the network: libcurl's headers here, the library is opened when it is needed.
ifeq ($(CURL_LIBS),)
$(call note,no libcurl by pkg-config: zinc pull fetches nothing and zinc serve takes no --models (apt-get install libcurl4-openssl-dev))
endif
$(B)/obj/pull/%.o $(B)/obj/server/router/%.o $(B)/obj/server/server.o $(B)/obj/tests/unit/test_router_%.o: CFLAGS += $(if $(CURL_LIBS),-DZINC_CURL $(CURL_CFLAGS))

# What is below the programs is position-independent, for libzinc.so, and hidden, which makes that cost nothing: calls and
# data stay as direct as in a program. One set of objects serves both; those of other flags are made again.
PIC := -fPIC -fvisibility=hidden
$(foreach f,$(sort $(B)/lib.flags build/lib.flags),$(eval $(call says,$(f),$(PIC))))

# Programs that the build runs.
$(K)/%: tools/gen/%.c
	@mkdir -p $(@D)
	@$(CC) -std=gnu17 -O1 $(WARN) $(PKG_CFLAGS) -I. -MMD -MP -o $@ $< $(tool_libs)
$(K)/compress: tool_libs = $(PKG_LIBS)
$(K)/lists.mk: $(K)/kernel_lists
	@$< make >$@.tmp && mv $@.tmp $@

# libzinc, for programs that are not ours; of the fuzz build nobody needs it.
LIBZINC_SO := $(if $(filter fuzz,$(config))$(MACOS),,$(B)/libzinc.so.0)

# One library of everything below the programs; a folder's sources are whatever lies in it.
LIB_DIRS := base $(if $(MACOS),base/macos) pull jinja model graph oracle rt rt/lockstep $(if $(MACOS),,rt/pm4 rt/amd rt/kfd $(if $(DRM_LIBS),rt/umq)) cuda metal $(if $(HAVE_VK),vk) engine engine/sample engine/grammar engine/answer engine/serve engine/proof server server/router lib
LIB_SRC  := $(foreach d,$(LIB_DIRS),$(wildcard $(d)/*.c)) kernels/codebooks.c
# The cpu tier's products and their kin take longer to compile for another build than all else there. They see tensors alone, whose
# sizes were checked, in arenas that no sanitizer looks into: others than release take the release build's. Sanitizers look at
# mm_plain, mm_avx2 and their kin; for the others tests/unit/test_mm_dot.c puts what they read beside pages that nobody may read.
# The stand-in for Hopper's matrix products a sanitizer build has once more, for tests about kernels (WATCHED, mk/tests.mk).
AGAIN     := $(filter oracle/mm_% oracle/ops_%,$(LIB_SRC))
AGAIN     := $(if $(filter debug fuzz thread,$(config)),$(AGAIN))$(if $(filter sanitize,$(config)),$(filter %_avxvnni.c %_avx512.c %_vbmi.c %_amx.c,$(AGAIN)) rt/lockstep/hopper.c)
AGAIN_OBJ := $(AGAIN:%.c=build/obj/%.o)
LIB_OBJ  := $(patsubst %.c,$(B)/obj/%.o,$(filter-out $(AGAIN),$(LIB_SRC))) $(AGAIN_OBJ) $(K_HOST_OBJ)
CLI_SRC  := $(wildcard cli/*.c)
CLI_OBJ  := $(CLI_SRC:%.c=$(B)/obj/%.o)
# The embedded kernels, some 13 MB: in the programs; the tests, which are many, share them.
LIB      := $(B)/libzinc.a $(K)/libblobs.a
TEST_LIB := $(B)/libzinc.a $(K)/libblobs.so

# Instruction sets are chosen per file by its suffix and at run time by oracle/isa.c.
ifneq ($(findstring x86_64,$(MACHINE)),)
ISA_avx2    := -mavx2 -mfma -mf16c
ISA_avxvnni := $(ISA_avx2) -mavxvnni
ISA_avx512  := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
ISA_vbmi    := $(ISA_avx512) -mavx512vbmi -mgfni
ISA_amx     := $(ISA_vbmi) -mamx-tile -mamx-int8 -mamx-bf16
endif
# What the address sanitizer sees as well, and sooner, is not also asked of each access in the long products and their kin, and
# registers are given out simply: they compile in a fifth of the time. Codes, shifts, sums and indices of arrays are checked.
SEEN_TWICE := null,object-size,pointer-overflow
ifeq ($(config),sanitize)
$(B)/obj/oracle/mm_%.o $(B)/obj/oracle/ops_%.o: CFLAGS += -fno-sanitize=alignment,$(SEEN_TWICE) $(if $(findstring clang,$(CC)),,-fira-region=one)
# Where there is AVX-512 only tests that choose them run these: their accesses are checked by calls, which compile in less than half the time.
ifeq ($(findstring clang,$(CC)),)
$(B)/obj/oracle/mm_avx2.o: CFLAGS += --param asan-instrumentation-with-call-threshold=0
endif
endif
ifneq ($(filter aarch64% arm64%,$(MACHINE)),)
ISA_dotprod := -march=armv8.2-a+dotprod
endif
isa_flags = $(if $(filter %_dotprod.c,$<),$(ISA_dotprod))$(if $(filter %_avx2.c,$<),$(ISA_avx2))$(if $(filter %_avxvnni.c,$<),$(ISA_avxvnni))$(if $(filter %_avx512.c,$<),$(ISA_avx512))$(if $(filter %_vbmi.c,$<),$(ISA_vbmi))$(if $(filter %_amx.c,$<),$(ISA_amx))

# tools/NAME.c is a program of one file; tools/NAME/*.c is a program of several.
TOOLS     := $(patsubst tools/%.c,%,$(wildcard tools/*.c)) $(patsubst tools/%/main.c,%,$(wildcard tools/*/main.c))
TOOLS     := $(if $(HAVE_VK),$(TOOLS),$(filter-out vkstats,$(TOOLS)))
TOOLS     := $(if $(MACOS),$(filter-out amdsim metalsim pm4dump,$(TOOLS)),$(TOOLS))
TOOL_BINS := $(addprefix $(B)/,$(TOOLS))
PROGRAMS  := $(if $(CLI_SRC),$(B)/zinc) $(TOOL_BINS) $(if $(MACOS),,$(B)/libamdsim.so $(B)/libmetalsim.so) $(LIBZINC_SO) $(if $(LIBZINC_SO),$(B)/libzinc.pc)

.PHONY: kernels all check tests peer fuzz fuzz-run bench format format-check gen gen-check install install-files uninstall list-sources clean help
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
# So is the description of the API.
$(B)/obj/server/openapi.o: share/openapi.json
$(B)/obj/server/openapi.o: CFLAGS += -DZINC_OPENAPI='"share/openapi.json"'

FOUND := $(strip $(LIB_DIRS) $(DRM_LIBS) $(CURL_LIBS) $(EDIT_LIBS) $(AGAIN))
$(eval $(call says,$(B)/lib.found,$(FOUND)))
$(patsubst %.c,$(B)/obj/%.o,rt/tier.c cli/line_edit.c $(wildcard pull/*.c server/router/*.c) server/server.c \
   tests/e2e/test_amd_steps.c tests/unit/test_tier_copy.c tests/unit/test_vk_lower.c $(wildcard tests/unit/test_router_*.c)): $(B)/lib.found
$(B)/libzinc.a: $(LIB_OBJ) $(B)/lib.found
	@rm -f $@
	@echo "  AR    $@"
	@ar rcs$(if $(MACOS),,T) $@ $(filter %.o,$^)

# nodelete: threads and what other libraries were told of its functions outlive dlclose.
$(B)/libzinc.so.0: lib/libzinc.map $(patsubst %.c,$(B)/obj/%.o,$(wildcard lib/*.c)) $(LIB)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=$< -Wl,-z,defs -Wl,-z,nodelete -Wl,--as-needed \
	   -o $@ $(filter-out $<,$^) $(LDLIBS)
	@ln -sf $(@F) $(@D)/libzinc.so

$(B)/libzinc.pc: lib/libzinc.pc.in Makefile
	@sed 's/@VERSION@/$(VERSION)/' $< >$@.tmp && mv $@.tmp $@

$(B)/zinc: $(CLI_OBJ) $(LIB)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) $(pic) $(isa_flags) -MMD -MP -c -o $@ $<
$(AGAIN_OBJ): build/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $< (release)"
	@$(HOST_CC) $(AS_RELEASE) $(pic) $(isa_flags) -MMD -MP -c -o $@ $<
$(LIB_OBJ): pic := $(PIC)
$(filter $(B)/obj/%,$(LIB_OBJ)) $(K_WATCHED_OBJ): $(B)/lib.flags
$(filter-out $(B)/obj/%,$(LIB_OBJ)): build/lib.flags

define tool_rule
$(B)/$(1): $(patsubst %.c,$(B)/obj/%.o,$(wildcard tools/$(1).c tools/$(1)/*.c)) $(LIB)
	@echo "  LINK  $$@"
	@$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
endef
$(foreach t,$(filter-out amdsim metalsim,$(TOOLS)),$(eval $(call tool_rule,$(t))))

include mk/amdsim.mk
include mk/metalsim.mk
include mk/tests.mk
include mk/dist.mk

FORMATTED = $(shell git ls-files '*.c' '*.h' | grep -v '/gen/')
format: ## rewrite the sources with clang-format
	@clang-format -i $(FORMATTED)
format-check:
	@clang-format --dry-run -Werror $(FORMATTED)

gen: ## rewrite the generated files under */gen/
	@for g in tools/gen_*.sh tools/gen_*.py; do [ ! -e $$g ] || $$g || exit 1; done
gen-check: gen ## fail when a generated file differs from its generator's output
	@git diff --exit-code -- '*/gen/*'

# The manual page: prose around the tables of options.
$(B)/zinc.1: doc/zinc.1.in $(B)/zinc
	@$(B)/zinc help --man <$< >$@.tmp && mv $@.tmp $@
all: $(B)/zinc.1

install: all ## install programs, manual page, documents, completions and the demo model below PREFIX (/usr/local)
	@$(MAKE) --no-print-directory install-files
# Whatever the build folder holds.
install-files:
	@tools/install.sh put $(B) "$(DESTDIR)$(PREFIX)"
uninstall: ## remove what make install put there
	@tools/install.sh remove $(B) "$(DESTDIR)$(PREFIX)"

list-sources: # of the programs, for tests
	@echo $(LIB_SRC) $(CLI_SRC)

clean: ## remove build/
	rm -rf build

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12 | sed 's/^/  make /'
	@echo "  config=release|debug|sanitize|thread|fuzz, PREFIX=DIR, CC=gcc|clang-19, SUITES='unit ops stream amdsim e2e'"
	@echo "  NO_NV=1, NO_AMD=1, NO_VULKAN=1: without kernels for such cards, which are most of a build's time"
	@echo "  NV_TARGETS='sm_80 sm_90a': which NVIDIA cards; sm_90a is Hopper, sm_80 what came before and after it"
	@echo "  NO_CUBIN=1: kernels for NVIDIA cards as PTX alone, which the driver compiles at the first start, also where ptxas is"

-include $(shell find $(sort $(B)/obj build/obj) $(B)/pic $(K) -name '*.d' 2>/dev/null)

# mk/msl.mk: the kernels as Metal texts, embedded for the metal tier, and as C++ for the host, which tools/metalsim runs.
#
# A text is a module's C through the preprocessor and tools/gen/msl_text.c, with kernels/hw/msl.metal in front of it.
MSL       := $(MODULES:%=$(K)/msl/%.metal)
MSL_EMPTY := $(addprefix $(K)/msl/none/,stdint.h stdbool.h stddef.h)
$(MSL_EMPTY):
	@mkdir -p $(@D)
	@: >$@
$(MSL): $(K)/msl/%.metal: $$(source_$$*) $(K)/msl_text kernels/hw/msl.metal $(K)/threads/$$*.txt | $(MSL_EMPTY)
	@mkdir -p $(@D)
	@echo "  MSL   $*"
	@$(CC) -E -P -std=gnu17 -ffreestanding -nostdinc -I$(K)/msl/none -I. -DKD_MSL $(set_$*) -MMD -MP -MF $@.d -MT $@ $< | \
	   $(K)/msl_text kernels/hw/msl.metal $(K)/threads/$*.txt >$@
BLOBS += $(MSL:%=%.zst)

# Compiled as far as Apple's tools go, where they are: then a first start does not parse the texts.
METALLIB := $(if $(HAVE_METALLIB),$(MODULES:%=$(K)/metallib/%.metallib))
$(METALLIB): $(K)/metallib/%.metallib: $(K)/msl/%.metal
	@mkdir -p $(@D)
	@echo "  METAL $*"
	@$(METALC) -c -o $(@:.metallib=.air) $<
	@$(METALLINK) -o $@ $(@:.metallib=.air)
BLOBS += $(METALLIB:%=%.zst)
ifeq ($(MACOS) $(HAVE_METALLIB),Darwin )
$(call note,no Metal compiler by xcrun: a first start compiles the kernels' texts (Xcode; xcodebuild -downloadComponent MetalToolchain))
endif

# As C++14 by clang against tools/metalsim/msl/metal_stdlib.
MSL_HOST  := $(if $(HAVE_CXX),$(MSL:%.metal=%.o) $(K)/msl/modules.o $(K)/msl/enter.o)
MSL_FLAGS := -x c++ -std=c++14 -O2 -fno-unroll-loops -fno-vectorize -fno-slp-vectorize -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing -fno-exceptions -fno-rtti \
             -Wall -Wextra -Wno-unknown-attributes -Wno-unused-parameter -Wno-unused-function -Wno-unused-variable \
             -Wno-missing-field-initializers $(if $(findstring x86_64,$(MACHINE)),-mfma -mf16c) -Itools/metalsim/msl -I.
$(MSL:%.metal=%.cc): %.cc: %.metal $(K)/msl_host
	@$(K)/msl_host $(*F) <$< >$@
$(MSL:%.metal=%.o): %.o: %.cc tools/metalsim/msl/metal_stdlib tools/metalsim/kernels.h
	@echo "  CXX   $*"
	@$(CLANG) $(MSL_FLAGS) -c -o $@ $<
$(K)/msl/modules.c: $(K)/lists.mk mk/msl.mk
	@mkdir -p $(@D)
	@{ echo '#include "tools/metalsim/kernels.h"'; printf 'extern const struct msim_module msim_module_%s;\n' $(MODULES); \
	   echo 'extern const struct msim_module *const msim_modules[]; const struct msim_module *const msim_modules[] = {'; \
	   printf '&msim_module_%s,\n' $(MODULES); echo '0 };'; } >$@
$(K)/msl/modules.o: $(K)/msl/modules.c tools/metalsim/kernels.h
	@$(CC) -std=gnu17 -O1 -fPIC -fvisibility=hidden -I. -c -o $@ $<
$(K)/msl/enter.o: tools/metalsim/enter.cc tools/metalsim/msl/metal_stdlib
	@$(CLANG) $(MSL_FLAGS) -c -o $@ $<

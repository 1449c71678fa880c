# mk/kernels.mk: the GPU kernels, kernels/*.c, for each device target and for the host, and what embeds them.
#
# kernels/kernels.def names the modules; tools/gen/kernel_lists.c tells what each is made from: source_MODULE, its file, and
# set_MODULE, the weight types it is compiled for. Each is compiled for the host (rt/lockstep), and by clang for each device
# target into build/kernels/TARGET, from where the objects are embedded. Without clang the programs have no GPU tiers; NO_NV=1 and
# NO_AMD=1 leave out what takes most of a build's time where no such card is.
AMD_TARGETS := gfx11-generic gfx12-generic
NV_TARGETS  ?= sm_80 sm_90a
ifeq ($(NO_NV),1)
HAVE_NV :=
else ifeq ($(HAVE_NV),)
$(call note,$(CLANG) cannot compile for GPUs here: built without kernels for the cuda tier (apt-get install clang-19))
endif
ifeq ($(NO_AMD),1)
HAVE_AMD :=
else ifeq ($(HAVE_AMD),)
$(call note,no code objects for AMD in this build (apt-get install clang-19 lld-19))
endif

MODULES := $(sort $(MODULES))
NV      := $(sort $(MODULES) $(MODULES_MMA8))
PTX     := $(if $(HAVE_NV),$(filter $(foreach t,$(NV_TARGETS),$(K)/$(t)/%),$(NV:%=$(K)/sm_80/%.ptx) $(patsubst %,$(K)/sm_90a/%.ptx,$(sort $(NV) $(MODULES_SM90)))))
WALKED  := $(filter-out %_any attn_prompt_% attn_wgmma_%,$(filter basic altup rope attn_% gdn matvec1_% matvec_% shexp_%,$(NV) $(MODULES_SM90)))
WALK    := $(if $(HAVE_NV),$(patsubst %,$(K)/walk_sm_90a/%.ptx,$(WALKED) walk))
# What the driver would make of the PTX at the first start, in half a minute: made here where CUDA's assembler is. NO_CUBIN=1, where
# no such card is to start on: it takes as long as compiling half of the PTX.
CUBIN   := $(if $(HAVE_PTXAS),$(if $(filter 1,$(NO_CUBIN)),,$(patsubst $(K)/sm_90a/%.ptx,$(K)/sm_90a_cubin/%.cubin,$(filter $(K)/sm_90a/%,$(PTX)))))
AMD     := $(if $(HAVE_AMD),$(foreach t,$(AMD_TARGETS),$(MODULES:%=$(K)/$(t)/%.co)))
AMD_ASM := $(filter $(foreach t,$(AMD_TARGETS),$(WALKED:%=$(K)/$(t)/%.s)),$(AMD:.co=.s))
AMD_WALK := $(foreach t,$(AMD_TARGETS),$(if $(HAVE_AMD),$(K)/walk_$(t)/walk.co) $(patsubst $(K)/$(t)/%.s,$(K)/walk_$(t)/%.words,$(filter $(K)/$(t)/%,$(AMD_ASM))))
BLOBS   := $(addsuffix .zst,$(SPIRV) $(PTX) $(CUBIN) $(WALK) $(AMD) $(AMD_WALK))
include mk/msl.mk

comma := ,
# In the rules below $(*D) is the target, $(*F) the module.
K_FLAGS      := -std=gnu17 -O3 $(filter-out -Wno-psabi -Wmissing-prototypes,$(WARN)) -ffp-contract=off -fno-math-errno -ffreestanding -nogpulib -I.
flags_sm_90a := -DKD_SM90
# Bodies for persistent plans (kernels/walk.h).
flags_walk_sm_90a := -DKD_SM90 -DKD_WALK
source_walk := kernels/walk.c
# Preparing for code generation looks again at blocks that changed, not at the whole kernel: compiled in three quarters of the time
# where products are unrolled, to the same PTX. Elsewhere it gains nothing.
sink_once := $(patsubst %,$(K)/sm_90a/%.ptx,gemm_half_% gemm_wgmma_% rows_half_%)
$(PTX) $(WALK): $(K)/%.ptx: $$(source_$$(*F)) $(K)/threads/$$(*F).txt tools/ptx_threads.awk
	@mkdir -p $(@D)
	@echo "  PTX   $@"
	@$(CLANG) $(K_FLAGS) $(set_$(*F)) $(flags_$(*D)) --target=nvptx64-nvidia-cuda -march=$(patsubst walk_%,%,$(*D)) \
	   -Xclang -target-feature -Xclang +ptx83 $(if $(filter $(sink_once),$@),-mllvm -cgpp-huge-func=1) -MMD -MP -MF $@.d -MT $@ -S -o $@.s $<
	@awk -f tools/ptx_threads.awk $(K)/threads/$(*F).txt $@.s >$@ && rm $@.s
$(CUBIN): $(K)/sm_90a_cubin/%.cubin: $(K)/sm_90a/%.ptx
	@mkdir -p $(@D)
	@echo "  CUBIN $@"
	@$(PTXAS) -arch=sm_90a -o $@ $<
# The list of threads has the kernels that the target's preprocessed source has: some are not for all targets.
# Generic targets need code object version 6. Past the driver, which warns that ROCm's loaders may not take it; ours does.
AMD_V6 := -Xclang -mcode-object-version=6 -mllvm --amdhsa-code-object-version=6
AMD_CC := $(CLANG) --target=amdgcn-amd-amdhsa -fuse-ld=lld -nogpulib -Wno-unused-command-line-argument -mllvm --amdhsa-code-object-version=6
AMD_OF_C = $(CLANG) $(K_FLAGS) $(set_$(*F)) --target=amdgcn-amd-amdhsa -mcpu=$(*D)
# $(call amd_attrs,more): attributes of the module's kernels; more: an awk expression of further ones for $$1.
amd_attrs = $(AMD_OF_C) -E -P $< | tr -cs 'A-Za-z0-9_' '\n' | \
	   awk 'FILENAME == ARGV[1] { n[$$1] = $$2; next } \
	        $$1 in n { print $$1 ",amdgpu-flat-work-group-size=" n[$$1] "," n[$$1] $1; delete n[$$1] }' \
	   $(K)/threads/$(*F).txt - >$@.csv
$(filter-out $(AMD_ASM:.s=.co),$(AMD)): $(K)/%.co: $$(source_$$(*F)) $(K)/threads/$$(*F).txt
	@mkdir -p $(@D)
	@echo "  AMD   $@"
	@$(amd_attrs)
	@$(AMD_OF_C) -fuse-ld=lld $(AMD_V6) -mllvm -forceattrs-csv-path=$@.csv -MMD -MP -MF $@.d -MT $@ -o $@ $<
# Bodies of persistent plans are the same machine code but for single words: those of the object made from the assembly that
# tools/amd_walk.awk changed. On gfx12 they leave s104 and s105 alone; the attribute counts two more for vcc.
num_sgpr_gfx12-generic := "\n" $$1 "$(comma)amdgpu-num-sgpr=106"
$(AMD_ASM): $(K)/%.s: $$(source_$$(*F)) $(K)/threads/$$(*F).txt
	@mkdir -p $(@D)
	@echo "  AMD   $@"
	@$(call amd_attrs, $(num_sgpr_$(*D)))
	@$(AMD_OF_C) $(AMD_V6) -mllvm -forceattrs-csv-path=$@.csv -MMD -MP -MF $@.d -MT $@ -S -o $@ $<
$(AMD_ASM:.s=.co): $(K)/%.co: $(K)/%.s tools/amd_walk.awk # so that an object of another rule goes
	@$(AMD_CC) -mcpu=$(*D) -x assembler -o $@ $<
$(filter %.words,$(AMD_WALK)): $(K)/walk_%.words: $(K)/%.s $(K)/%.co tools/amd_walk.awk
	@mkdir -p $(@D)
	@awk -f tools/amd_walk.awk $< >$@.s
	@$(AMD_CC) -mcpu=$(*D) -x assembler -o $@.co $@.s
	@test "$$(wc -c <$@.co)" = "$$(wc -c <$(K)/$*.co)"
	@cmp -l $(K)/$*.co $@.co >$@ || test $$? = 1
	@rm $@.s $@.co
$(filter %.co,$(AMD_WALK)): $(K)/walk_%/walk.co: kernels/walk_amd.S
	@mkdir -p $(@D)
	@echo "  AMD   $@"
	@$(AMD_CC) -mcpu=$* -o $@ $<

# For the host: quick to compile, and no calls where there is an instruction; all builds take the release build's. Tests about
# kernels (WATCHED, mk/tests.mk) have a sanitizer build's own, of one type of each kind of block, but none of codebooks, which it
# runs on the cpu tier alone (tests/ops/test_ops_lockstep.sh), and few of Hopper's.
# What Hopper alone has, or has otherwise, as for that, for lockstep:sm90: matmul8 once more, with clusters (kernels/hw/cluster.h).
K_TWICE      := $(filter matmul8_%,$(NV))
$(foreach m,$(K_TWICE),$(eval source_$(m)_sm90 := $(source_$(m)))$(eval set_$(m)_sm90 := $(set_$(m)) -Dk_$(m)=k_$(m)_sm90))
K_SM90       := $(sort $(MODULES_SM90)) $(K_TWICE:%=%_sm90)
K_HOST_OBJ   := $(patsubst %,build/obj/kernels/%.o,$(NV) $(K_SM90))
ifeq ($(config),sanitize)
K_BOOKS      := $(filter-out f32 f16 bf16 any $(MODULES:gemm_%=%),$(patsubst matvec_%,%,$(filter matvec_%,$(MODULES))))
K_LIKE       := bf16 q41 q50 iq4nl iq4xs q2k q3k q5k q5k_q6k # as f16 q40 q51 mxfp4 q6k q4k q4k_q6k with other numbers
K_WATCHED    := $(filter-out $(K_BOOKS:%=matvec_%) $(K_BOOKS:%=matvec1_%) $(addprefix %_,$(K_LIKE)),$(NV)) \
                gemm_half_q80 gemm_wgmma_f16 gemm_half_q4k rows_half_q80 rows_half_q4k matmul8_q80_sm90 router_rows
K_WATCHED_OBJ := $(K_WATCHED:%=$(B)/obj/kernels/%.o)
endif
HOST_CC      := $(if $(filter fuzz,$(config)),gcc,$(CC))
AS_RELEASE    = $(subst $(CFLAGS_$(config)),$(CFLAGS_release),$(CFLAGS))
# The lockstep tier asks for the processor that these want (rt/lockstep/tier.c).
K_HOST_FLAGS := -O1 $(if $(findstring x86_64,$(MACHINE)),-mfma -mf16c) $(if $(findstring clang,$(HOST_CC)),,-fno-var-tracking)
# Watched, a prompt's products are most of what tests on lockstep take: what is unrolled is not looked at in each turn.
K_SEEN_FLAGS  = $(CFLAGS) -fno-sanitize=$(SEEN_TWICE) $(K_HOST_FLAGS) $(if $(filter gemm_f32,$(*F)),-O3,$(if $(filter gemm_%,$(*F)),-O2))
$(K_HOST_OBJ) $(K_WATCHED_OBJ): %.o: $$(source_$$(*F))
	@mkdir -p $(@D)
	@echo "  CC    $(*F)"
	@$(HOST_CC) $(if $(filter build/obj/%,$@),$(AS_RELEASE) $(K_HOST_FLAGS),$(K_SEEN_FLAGS)) $(PIC) $(set_$(*F)) \
	   $(if $(filter $(K_SM90),$(*F)),-DKD_SM90) -MMD -MP -c -o $@ $<

# Threads of each kernel, as PTX and as the AMD compiler want to be told them: a list for each module, whose time changes
# when the list does.
$(K)/threads.txt: kernels/kernels.def kernels/qtypes.def mk/kernels.mk | $(K)/kernel_lists
	@mkdir -p $(K)/threads
	@$(K)/kernel_lists threads >$@.new
	@for m in $(sort $(NV) $(MODULES_SM90) walk); do \
	   awk -v m=$$m '$$3 == m' $@.new >$(K)/threads/new; \
	   cmp -s $(K)/threads/new $(K)/threads/$$m.txt || mv $(K)/threads/new $(K)/threads/$$m.txt; \
	 done
	@mv $@.new $@
$(K)/threads/%.txt: $(K)/threads.txt
	@:

# What is embedded: the objects compressed, assembly that includes them, and C that names them.
$(BLOBS): %.zst: % $(K)/compress
	@$(K)/compress <$< >$@
$(eval $(call says,$(K)/blobs.found,$(strip nv $(if $(HAVE_NV),$(NV_TARGETS)) amd $(HAVE_AMD) ptxas $(if $(CUBIN),$(HAVE_PTXAS)) vk $(HAVE_VK))))
$(K)/blobs.c: $(BLOBS) $(K)/lists.mk mk/kernels.mk mk/vulkan.mk tools/blobs.sh $(K)/blobs.found
	@mkdir -p $(@D)
	@tools/blobs.sh $(BLOBS) >$@
$(K)/blobs.o: $(K)/blobs.c rt/blob.h base/embed.h
	@$(CC) -std=gnu17 -I. -fPIC -c -o $@ $<
$(K)/libblobs.a: $(K)/blobs.o
	@rm -f $@
	@ar rcs$(if $(MACOS),,T) $@ $<
$(K)/libblobs.so: $(K)/blobs.o
	@echo "  LINK  $@"
	@$(CC) -shared -Wl,$(if $(MACOS),-install_name$(comma)@rpath/,-soname$(comma))libblobs.so -o $@ $<

kernels: $(BLOBS) $(K_HOST_OBJ) ## compile the GPU kernels for every target

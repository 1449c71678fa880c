# mk/amdsim.mk: the model of AMD hardware, a library to preload and its launcher (build/amdsim); it knows nothing of zinc.
SIM_SRC   := $(wildcard tools/amdsim/*.c tools/amdsim/isa/*.c tools/amdsim/cp/*.c tools/amdsim/kmd/*.c)
SIM_OBJ   := $(patsubst %.c,$(B)/pic/%.o,$(filter-out tools/amdsim/main.c,$(SIM_SRC)))
SIM_CORE  := $(filter-out $(B)/pic/tools/amdsim/kmd/%,$(SIM_OBJ))
SIM_FLAGS  = $(if $(filter sanitize,$(config)),$(CFLAGS),$(subst -O1,-O2,$(CFLAGS))) -fPIC -fvisibility=hidden
# Whole models run on the release build's (tests/e2e/lib.sh): it is to be compiled quickly, the long tables of instructions as in Makefile.
ifeq ($(config),sanitize)
$(B)/pic/tools/amdsim/isa/%.o: CFLAGS += -fno-sanitize=$(SEEN_TWICE) $(if $(findstring clang,$(CC)),,-fira-region=one)
endif
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
SIM_CLIENTS := client_raw client_userq $(if $(HSAKMT_LIBS),client_hsakmt) $(if $(DRM_LIBS),client_drm client_cs)
SIM_CLIENT_BINS := $(SIM_CLIENTS:%=$(B)/tests/amdsim/%)
client_hsakmt_LIBS := $(HSAKMT_LIBS) $(DRM_LIBS)
client_drm_LIBS    := $(DRM_LIBS)
client_cs_LIBS     := $(DRM_LIBS)
$(SIM_CLIENT_BINS): $(B)/%: %.c
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(CFLAGS) $(HSAKMT_CFLAGS) $(DRM_CFLAGS) $(LDFLAGS) -o $@ $< $($(@F)_LIBS) -pthread

$(B)/amdsim: $(B)/obj/tools/amdsim/main.o $(B)/obj/tools/amdsim/chip.o
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^

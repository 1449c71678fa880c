# mk/metalsim.mk: the stand-in for Apple's Metal runtime, a library to preload and its launcher (build/metalsim). It runs the
# kernels' Metal texts, which mk/msl.mk compiles for the host, on the fibres of rt/lockstep.
METALSIM_SRC := $(filter-out tools/metalsim/main.c,$(wildcard tools/metalsim/*.c)) rt/lockstep/run.c rt/lockstep/cluster.c rt/lockstep/copies.c rt/lockstep/hopper.c base/err.c
METALSIM_OBJ := $(METALSIM_SRC:%.c=$(B)/pic/%.o)
$(B)/libmetalsim.so: $(METALSIM_OBJ) $(MSL_HOST)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -shared -Wl,-Bsymbolic -o $@ $^ -lm -ldl
$(B)/metalsim: $(B)/obj/tools/metalsim/main.o
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^

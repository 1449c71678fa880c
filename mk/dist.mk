# mk/dist.mk: packages (doc/packages.md).

DIST := $(B)/dist
# Programs of the tarball, laid out as a build folder: all that can be is linked in. The C library is not, since the drivers'
# libraries are opened at run time, and they need the system's.
S            := $(B)/static
STATIC_TOOLS := quantize mkmodel loadgen streamdump pm4dump
STATIC_NAMES := edit bsd md tinfo utf8proc xxhash elf z gnutls hogweed nettle gmp tasn1 idn2 unistring zstd jansson
STATIC_ARCHIVES = $(filter-out %/libjansson.a,$(ARCHIVES)) $(S)/obj/libjansson.a
STATIC_LINK     = $(CC) $(LDFLAGS) -o $@ $(filter-out %/libjansson.a,$^) -Wl,--start-group $(STATIC_ARCHIVES) -Wl,--end-group -lm -ldl

# A name of its own for a function of Jansson's that we have one of as well.
$(S)/obj/libjansson.a: $(filter %/libjansson.a,$(ARCHIVES))
	@mkdir -p $(@D)
	@objcopy --redefine-sym utf8_encode=jansson_utf8_encode $< $@
$(S)/obj/p11_none.o: pack/p11_none.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) $$(pkg-config --cflags p11-kit-1) -c -o $@ $<
$(S)/zinc: $(CLI_OBJ) $(LIB) $(S)/obj/p11_none.o $(S)/obj/libjansson.a
	@echo "  LINK  $@"
	@$(STATIC_LINK)
define static_rule
$(S)/$(1): $(patsubst %.c,$(B)/obj/%.o,$(wildcard tools/$(1).c tools/$(1)/*.c)) $(LIB) $(S)/obj/p11_none.o $(S)/obj/libjansson.a
	@echo "  LINK  $$@"
	@$$(STATIC_LINK)
endef
$(foreach t,$(STATIC_TOOLS),$(eval $(call static_rule,$(t))))
$(S)/zinc.1 $(S)/amdsim $(S)/libamdsim.so: $(S)/%: $(B)/%
	@mkdir -p $(@D)
	@cp $< $@
STATIC := $(addprefix $(S)/,zinc $(STATIC_TOOLS) zinc.1 $(if $(MACOS),,amdsim libamdsim.so))

.PHONY: list-linked dist dist-deb dist-tarball dist-chart dist-check static
ifeq ($(strip $(ARCHIVES_MISSING)),)
static: $(STATIC)
# The test of packages takes them.
tests: $(if $(filter release,$(config)),static)
else
static:
	@echo "no$(ARCHIVES_MISSING): the tarball's programs have it within (apt-get install libunistring-dev, and what doc/dependencies.md names)" >&2; exit 1
endif
dist-deb: all
	@pack/deb.sh $(B) $(VERSION) $(DIST)
list-linked: # archives that are linked into the tarball's programs
	@echo $(ARCHIVES)
dist-tarball: static
	@LINKED='$(ARCHIVES)' pack/tarball.sh $(B) $(VERSION) $(DIST)
dist-chart:
	@pack/chart.sh $(VERSION) $(DIST)
dist: all static ## packages into build/dist: .deb files, a tarball that needs the C library alone, the Helm chart
	@$(MAKE) --no-print-directory dist-deb dist-tarball dist-chart
	@pack/report.sh $(DIST) $(VERSION)
dist-check: dist ## the packages through lintian and into bare Debian roots (root, and the network for debootstrap)
	@pack/check.sh $(DIST) $(VERSION)

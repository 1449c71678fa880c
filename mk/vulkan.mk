# mk/vulkan.mk: the vulkan tier's kernels: vk/shaders/NAME.comp by glslc to SPIR-V, once with the integer dot product's
# instruction and once without. glslc and the Vulkan headers are all that is needed; the loader is opened at run time.
ifneq ($(filter 1,$(NO_VULKAN)),)
HAVE_VK :=
endif
ifeq ($(HAVE_VK),)
$(call note,no glslc or no Vulkan headers: built without the vulkan tier (apt-get install glslc libvulkan-dev))
endif
CFLAGS += $(if $(HAVE_VK),-DZINC_VULKAN)
SHADERS := $(sort $(SHADERS))
SPIRV   := $(if $(HAVE_VK),$(SHADERS:%=$(K)/spirv/%.spv) $(SHADERS:%=$(K)/spirv_plain/%.spv))

# Of a module $(*F), tools/gen/kernel_lists.c tells the file (shader_MODULE) and the weight types (shader_set_MODULE). Kernels
# on cooperative matrices are written with NVIDIA's GLSL extension, which this glslc knows, and rewritten to KHR's SPIR-V.
flags_spirv  := -DZK_DOT4
$(SPIRV): $(K)/%.spv: $$(shader_$$(*F)) $(K)/gen/args.glsl $(K)/spirv_khr
	@mkdir -p $(@D)
	@echo "  GLSL  $@"
	@$(GLSLC) --target-env=vulkan1.2 -fshader-stage=compute $(flags_$(*D)) $(shader_set_$(*F)) -I$(K)/gen -Ivk/shaders \
	   -MD -MF $@.d -MT $@ -o $@$(if $(filter %coopmat,$*),.nv) $<
	$(if $(filter %coopmat,$*),@$(K)/spirv_khr <$@.nv >$@.khr && mv $@.khr $@ && rm $@.nv)
$(K)/gen/args.glsl: $(K)/glsl_args
	@mkdir -p $(@D)
	@$< >$@

# tinygrad's own reader of GGUF files and its own language models, on the device that DEV names:
#
#     tinygrad_model.py MODEL.gguf TOKEN,TOKEN,... N LOGITS
#
# prints the N tokens that follow, the most likely each time, on one line, and writes the logits after the prompt to
# the file LOGITS, f32 [vocabulary]. test_tinygrad_models.sh asks zinc the same.
import sys
import types

import numpy as np
from tinygrad import Tensor, nn

# The wheel of 0.14.0 lacks the folder llm/kernels, whose plain alternatives are taken where a card is not supported.
amd = types.ModuleType("tinygrad.llm.kernels.amd")
amd.Linear, amd.amd_custom_kernels_supported = nn.Linear, lambda device: False
amd.flash_attention = amd.gated_delta_prefill = None
sys.modules["tinygrad.llm.kernels"] = types.ModuleType("tinygrad.llm.kernels")
sys.modules[amd.__name__] = amd
from tinygrad.llm.model import Transformer  # noqa: E402

file, prompt, n, logits = sys.argv[1], [int(t) for t in sys.argv[2].split(",")], int(sys.argv[3]), sys.argv[4]
model, _ = Transformer.from_gguf(file, max_context=64)
x = model.token_embd(Tensor([prompt])).float()
for block in model.blk:
    x = block(x, 0)
model.output(model.output_norm(x))[0, -1].numpy().astype(np.float32).tofile(logits)
tokens = model.generate(list(prompt))
print(*[next(tokens) for _ in range(n)])

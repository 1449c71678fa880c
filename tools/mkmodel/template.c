/* Short chat templates: the frame of each family's format (system, user, assistant, generation prompt), nothing
 * else. */
#include "tools/mkmodel/mkmodel.h"

static const char chatml[] =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}";

static const char chatml_thinking[] =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content|trim + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- else %}{{- '<think>\\n' }}{%- endif %}"
    "{%- endif %}";

static const char llama3[] =
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content|trim + '<|eot_id|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}";

static const char gemma3[] =
    "{{- bos_token }}"
    "{%- if messages[0].role == 'system' %}{%- set head = messages[0].content|trim + '\\n\\n' %}"
    "{%- set rest = messages[1:] %}{%- else %}{%- set head = '' %}{%- set rest = messages %}{%- endif %}"
    "{%- for message in rest %}"
    "{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}"
    "{{- (head if loop.first else '') + message.content|trim + '<end_of_turn>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}";

static const char gemma4[] =
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- '<|turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}"
    "{{- message.content|trim + '<turn|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|turn>model\\n' }}"
    "{%- if not enable_thinking %}{{- '<|channel>thought\\n<channel|>' }}{%- endif %}{%- endif %}";

static const char harmony[] =
    "{{- '<|start|>system<|message|>Reasoning: ' + (reasoning_effort if reasoning_effort else 'medium') }}"
    "{{- '\\n\\n# Valid channels: analysis, commentary, final.<|end|>' }}"
    "{%- for message in messages %}"
    "{%- if message.role == 'system' or message.role == 'developer' %}"
    "{{- '<|start|>developer<|message|># Instructions\\n\\n' + message.content + '\\n\\n<|end|>' }}"
    "{%- elif message.role == 'assistant' %}"
    "{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}"
    "{%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}";

const char rerank_template[] =
    "<|im_start|>system\nThe answer is yes or no.<|im_end|>\n"
    "<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

const char *chat_template(enum model_family f)
{
    switch (f) {
    case FAMILY_LLAMA:
    case FAMILY_MISTRAL3: return llama3;
    case FAMILY_QWEN35:
    case FAMILY_QWEN35MOE: return chatml_thinking;
    case FAMILY_GEMMA3:
    case FAMILY_GEMMA3N: return gemma3;
    case FAMILY_GEMMA4: return gemma4;
    case FAMILY_GPT_OSS: return harmony;
    default: return chatml;
    }
}

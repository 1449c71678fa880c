/* tests/lib/marked_templates.h: small chat templates, each with calls in the form of a released one. */
#ifndef ZINC_TESTS_LIB_MARKED_TEMPLATES_H
#define ZINC_TESTS_LIB_MARKED_TEMPLATES_H

#define MT_HEAD                                                                                                           \
    "{% if tools %}TOOLS{{ tools | tojson }}\n{% endif %}{% for m in messages %}{% if m.role != 'assistant' %}"        \
    "<{{ m.role }}>{{ m.content }}{% else %}<A>{{ m.content }}"
#define MT_TAIL "<E>{% endif %}{% endfor %}{% if add_generation_prompt %}<A>{% endif %}"
#define MT_EACH "{% for c in m.tool_calls %}"
#define MT_LIST "{% if m.tool_calls %}"
#define MT_ARGS "{{ c.function.arguments | tojson }}"
#define MT_OBJECT "{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}"
#define MT_COMMA "{% if not loop.last %}, {% endif %}"

#define MARKED_DEEPSEEK \
    MT_HEAD MT_LIST "<｜tool▁calls▁begin｜>" \
    MT_EACH "<｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>" MT_ARGS \
    "<｜tool▁call▁end｜>{% endfor %}<｜tool▁calls▁end｜>{% endif %}" MT_TAIL
#define MARKED_KIMI \
    MT_HEAD MT_LIST "<|tool_calls_section_begin|>" \
    MT_EACH "<|tool_call_begin|>functions.{{ c.function.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>" MT_ARGS \
    "<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>{% endif %}" MT_TAIL
#define MARKED_MISTRAL_IDS \
    MT_HEAD MT_EACH "[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]" MT_ARGS "{% endfor %}" MT_TAIL
#define MARKED_MISTRAL \
    MT_HEAD MT_EACH "[TOOL_CALLS]{{ c.function.name }}[ARGS]" MT_ARGS "{% endfor %}" MT_TAIL
#define MARKED_MISTRAL_LIST \
    MT_HEAD MT_LIST "[TOOL_CALLS][" MT_EACH MT_OBJECT MT_COMMA "{% endfor %}]{% endif %}" MT_TAIL
#define MARKED_NEMOTRON \
    MT_HEAD MT_LIST "<TOOLCALL>[" MT_EACH MT_OBJECT MT_COMMA "{% endfor %}]</TOOLCALL>{% endif %}" MT_TAIL
#define MARKED_APRIEL \
    MT_HEAD MT_LIST "<tool_calls>[" MT_EACH MT_OBJECT MT_COMMA "{% endfor %}]</tool_calls>{% endif %}" MT_TAIL
#define MARKED_FUNCTIONARY \
    MT_HEAD MT_EACH "<function={{ c.function.name }}>" MT_ARGS "</function>{% endfor %}" MT_TAIL
#define MARKED_GLM \
    MT_HEAD MT_EACH "\n<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n" \
    "<arg_value>{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>{% endfor %}" MT_TAIL
#define MARKED_SEED \
    MT_HEAD MT_EACH "<seed:tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments.items() %}" \
    "<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</seed:tool_call>{% endfor %}" MT_TAIL

#define MARKED_TEMPLATES(X)                                                                                            \
    X(MARKED_DEEPSEEK) X(MARKED_KIMI) X(MARKED_MISTRAL_IDS) X(MARKED_MISTRAL) X(MARKED_MISTRAL_LIST) X(MARKED_NEMOTRON) \
    X(MARKED_APRIEL) X(MARKED_FUNCTIONARY) X(MARKED_GLM) X(MARKED_SEED)

#endif

# tests/unit/complete.zsh FOLDER TEXT WANTED: types TEXT and a tab into a zsh whose completion of zinc is FOLDER/_zinc, and waits
# until the terminal shows WANTED: exit 0; 1 after 20 seconds without it.
zmodload zsh/zpty
shown=
look() # TEXT: whether the terminal shows it, at last
{
    local part
    for (( i = 0; i < 200; i++ )); do
        while zpty -r -t shell part; do shown+=$part; done
        [[ $shown != *$1* ]] || return 0
        sleep 0.1
    done
    return 1
}
zpty shell zsh -f -i
zpty -w shell "PROMPT=; stty cols 100; fpath=(${(q)1} \$fpath); autoload -U compinit; compinit -u -D; bindkey '^I' complete-word; echo rea''dy"
look ready || { print -u2 "zsh does not start: $shown"; exit 1; }
shown=
zpty -w -n shell "$2"$'\t'
look $3 || { print -u2 -r -- "$2: ${(V)shown}"; exit 1; }

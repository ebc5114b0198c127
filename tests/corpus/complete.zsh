# complete.zsh FOLDER LINE: what the line becomes when Tab is pressed at its end in a zsh that has the completions of FOLDER.
rm -f answer ready
zmodload zsh/zpty
zpty shell zsh -f -i
say() { zpty -w shell "$1" }
say "stty -echo; PS1= PS2= RPS1=; unsetopt zle_bracketed_paste prompt_cr prompt_sp; unset zle_bracketed_paste; TERM=dumb"
say "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -d ./dump; setopt no_auto_menu no_list_beep"
say "keep() { print -r -- \"\$BUFFER\" >answer; BUFFER=; zle accept-line }; zle -N keep; bindkey '^K' keep"
say "print ready >ready"
for _ in {1..200}; do [[ -e ready ]] && break; zpty -r -t shell _ >/dev/null; sleep 0.05; done
zpty -w -n shell "$2"$'\t\x0b'
for _ in {1..200}; do [[ -s answer ]] && break; zpty -r -t shell _ >/dev/null; sleep 0.05; done
zpty -d shell
cat answer

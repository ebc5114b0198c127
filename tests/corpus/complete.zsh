# complete.zsh FOLDER LINE: prints the line after Tab was pressed at its end, in a zsh with the completions of FOLDER.
rm -f answer ready
zmodload zsh/zpty
zpty shell zsh -f -i
send() { zpty -w shell "$1" }
send "stty -echo; PS1= PS2= RPS1=; unsetopt zle_bracketed_paste prompt_cr prompt_sp; unset zle_bracketed_paste; TERM=dumb"
send "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -d ./dump; setopt no_auto_menu no_list_beep"
send "keep() { print -r -- \"\$BUFFER\" >answer; BUFFER=; zle accept-line }; zle -N keep; bindkey '^K' keep"
send "print ready >ready"
for _ in {1..200}; do [[ -e ready ]] && break; zpty -r -t shell _ >/dev/null; sleep 0.05; done
zpty -w -n shell "$2"$'\t\x0b'
for _ in {1..200}; do [[ -s answer ]] && break; zpty -r -t shell _ >/dev/null; sleep 0.05; done
zpty -d shell
cat answer

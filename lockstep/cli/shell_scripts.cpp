#include "lockstep/cli/shell_scripts.h"

#include <array>

namespace lockstep::cli {
namespace {

constexpr std::string_view kBash =
    R"script(# Completion of lockstep for bash: the program itself says what can stand next.
_lockstep() {
  local rest=${COMP_LINE:0:COMP_POINT} line=() word i
  # Bash cuts at '=' and ':' too (COMP_WORDBREAKS); what no blank parts is one word.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${rest#"${rest%%[![:blank:]]*}"}
    if ((i == 0)) || [[ $word != "$rest" ]]; then line+=(''); fi
    rest=$word
    if ((i < COMP_CWORD)); then word=${COMP_WORDS[i]}; fi
    line[${#line[@]} - 1]+=$word
    rest=${rest#"$word"}
  done
  local typed=${line[${#line[@]} - 1]} kept='' breaks=${COMP_WORDBREAKS//[^=:]/}
  # Bash keeps what stands before its last cut, and wants the words without it. Quotes stop it.
  if [[ -n $breaks && $typed != [\"\']* ]]; then kept=${typed%"${typed##*[$breaks]}"}; fi
  line=("${line[@]//[\"\'\\]/}")
  typed=${line[${#line[@]} - 1]}
  local path=${typed##*=} next help add=()
  local before=${typed%"$path"}
  COMPREPLY=()
  while IFS=$'\t' read -r next help; do
    case $next in
      :files) mapfile -t add < <(compgen -f -P "${before#"$kept"}" -- "$path") ;;
      :toml) mapfile -t add < <(compgen -f -X '!*.toml' -- "$path"; compgen -d -- "$path") ;;
      :folders) mapfile -t add < <(compgen -d -P "${before#"$kept"}" -- "$path") ;;
      *) add=("${next#"$kept"}") ;;
    esac
    case $next in
      :*) compopt -o filenames ;;
      *[.=]) compopt -o nospace ;;
    esac
    COMPREPLY+=("${add[@]}")
  done < <("${line[0]/#\~\//$HOME/}" --next-words "${line[@]:1}" 2>/dev/null)
}
complete -F _lockstep lockstep
)script";

constexpr std::string_view kZsh = R"script(#compdef lockstep
# Completion of lockstep for zsh: the program itself says what can stand next.
_lockstep() {
  local program=${(Q)words[1]} line next files
  local -a whole open
  if [[ $program == '~/'* ]]; then program=$HOME/${program#'~/'}; fi
  for line in "${(@f)$("$program" --next-words "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
    next=${line%%$'\t'*}
    case $next in
      '') ;;
      :*) files=$next ;;
      *[.=]) open+=("${next//:/\\:}:${line#*$'\t'}") ;;
      *) whole+=("${next//:/\\:}${${line#$next}/$'\t'/:}") ;;
    esac
  done
  if (( $#whole )); then _describe -t words word whole; fi
  if (( $#open )); then _describe -t words word open -S ''; fi
  if [[ -n $files ]]; then compset -P '*='; fi
  case $files in
    :files) _files ;;
    :toml) _files -g '*.toml' ;;
    :folders) _files -/ ;;
  esac
}
if [[ $funcstack[1] == _lockstep ]]; then
  _lockstep "$@"
else
  compdef _lockstep lockstep
fi
)script";

constexpr std::string_view kFish =
    R"script(# Completion of lockstep for fish: the program itself says what can stand next.
function __lockstep_next
    set -l line (commandline -opc) (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $line[1])
    set -l before (string match -r '^.*=' -- $line[-1]; or echo '')
    set -l path (string replace -r '^.*=' '' -- $line[-1])
    for next in ($program --next-words $line[2..-1] 2>/dev/null)
        switch $next
            case :files
                printf '%s\n' $before(__fish_complete_path $path)
            case :toml
                string match -r '^[^\t]*(?:/|[.]toml)(?:\t.*)?$' -- (__fish_complete_path $path)
            case :folders
                printf '%s\n' $before(__fish_complete_directories $path)
            case '*'
                echo $next
        end
    end
end
complete -c lockstep -f -a '(__lockstep_next)'
)script";

constexpr auto kScripts =
    std::to_array<ShellScript>({{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}});

}  // namespace

std::span<const ShellScript> shell_scripts() { return kScripts; }

}  // namespace lockstep::cli

" Vim with the plugin ALE (package vim-ale): starts `pinch lsp` for SLS files.
" Load it with `:source`. Completion: Ctrl-X Ctrl-O. Documentation: :ALEHover. Definition: :ALEGoToDefinition.
autocmd BufRead,BufNewFile *.sls setfiletype sls
set omnifunc=ale#completion#OmniFunc
function! PinchRoot(buffer) abort
  let top = ale#path#FindNearestFile(a:buffer, 'top.sls')
  return empty(top) ? expand('#' . a:buffer . ':p:h') : fnamemodify(top, ':h')
endfunction
call ale#linter#Define('sls', {'name': 'pinch', 'lsp': 'stdio', 'executable': 'pinch', 'command': '%e lsp', 'language': 'sls', 'project_root': function('PinchRoot')})

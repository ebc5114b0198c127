-- Neovim 0.7 or later: starts `pinch lsp` for SLS files.
-- Load it from init.lua with `dofile('/path/to/nvim.lua')`, or as `nvim -u nvim.lua`.
vim.filetype.add({ extension = { sls = 'yaml' } })

local function attached(client, buffer)
  local keys = { buffer = buffer }
  -- Completion: Ctrl-X Ctrl-O. Documentation: K. Definition: gd. The finding of the line: gl.
  vim.bo[buffer].omnifunc = 'v:lua.vim.lsp.omnifunc'
  vim.keymap.set('n', 'K', vim.lsp.buf.hover, keys)
  vim.keymap.set('n', 'gd', vim.lsp.buf.definition, keys)
  vim.keymap.set('n', 'gl', vim.diagnostic.open_float, keys)
end

vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile' }, {
  pattern = '*.sls',
  callback = function(event)
    local top = vim.fs and vim.fs.find('top.sls', { upward = true, path = event.file })[1]
    local client = vim.lsp.start_client({
      name = 'pinch',
      cmd = { 'pinch', 'lsp' },
      root_dir = top and vim.fs.dirname(top) or vim.fn.getcwd(),
      on_attach = attached,
    })
    vim.lsp.buf_attach_client(event.buf, client)
  end,
})

;;; Emacs 28 with eglot: M-x eglot in an SLS file starts `pinch lsp`.
(require 'eglot)
(define-derived-mode pinch-sls-mode prog-mode "SLS"
  "A mode for SLS files of Pinch and Salt."
  (setq-local comment-start "# ")
  (setq-local indent-tabs-mode nil))
(add-to-list 'auto-mode-alist '("\\.sls\\'" . pinch-sls-mode))
(add-to-list 'eglot-server-programs '(pinch-sls-mode . ("pinch" "lsp")))
(add-hook 'pinch-sls-mode-hook #'eglot-ensure)

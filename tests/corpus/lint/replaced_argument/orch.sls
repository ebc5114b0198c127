web:
  salt.state:
    - tgt: '*'
    - expr_form: glob
    - sls: web

who: dev

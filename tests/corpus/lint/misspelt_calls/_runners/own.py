def anything():
    return True

c]0;pwned
x
.
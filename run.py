import subprocess,sys,re
S='/tmp/h/scratch/rb/s'
def cli(*a):
    return subprocess.run(['redis-cli','-s',S,*a],capture_output=True,text=True).stdout.strip()
def strip(p): return open(p).read()
old=subprocess.run(['git','-C','/tmp/h/expiry','show','ef1da8d:expiry/hash_get.lua'],capture_output=True,text=True).stdout
E='/tmp/h/expiry/expiry/'
new="local K, on_cluster = KEYS[1], KEYS[2] ~= nil local prefix = K .. ':'\n"+strip(E+'check.lua')+strip(E+'hash_get.lua')
shaO=cli('SCRIPT','LOAD',old); shaN=cli('SCRIPT','LOAD',new)
import time
dl=str(int(time.time()*1000)+3600000)
args=[]
for i in range(100):
    cli('HSET','k:h:a','field:%07d'%i,'x'*40); cli('ZADD','k:t:a',dl,'field:%07d'%i)
cli('HSET','k','version','2','shards','16')
def bench(*a):
    out=subprocess.run(['redis-benchmark','-s',S,'-n','300000','-P','50','-c','4','-q',*a],capture_output=True,text=True).stdout
    return out.strip().split('\r')[-1].strip()
for r in range(3):
    print('hget',bench('HGET','k:h:a','field:0000050'))
    print('old ',bench('EVALSHA',shaO,'1','k','a','field:0000050'))
    print('new ',bench('EVALSHA',shaN,'1','k','16','a','field:0000050'))
